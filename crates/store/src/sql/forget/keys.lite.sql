SELECT json_group_array(key) FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))
