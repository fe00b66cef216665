SELECT json_group_array(json_array(id, key)) FROM list_account
WHERE network = (SELECT key FROM list_network WHERE name = ?1) AND id IN (SELECT value FROM json_each(?2))
