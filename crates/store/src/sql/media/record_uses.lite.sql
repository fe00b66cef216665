INSERT INTO media_use_row
SELECT tweet.key, value ->> 1, value ->> 2 FROM json_each(?2)
CROSS JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 0
WHERE TRUE
ON CONFLICT DO NOTHING
