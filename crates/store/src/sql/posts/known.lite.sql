SELECT id FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))
