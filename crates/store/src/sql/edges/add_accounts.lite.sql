INSERT INTO list_account (network, id)
SELECT (SELECT key FROM list_network WHERE name = ?1), value FROM json_each(?2)
WHERE TRUE
ON CONFLICT DO NOTHING
