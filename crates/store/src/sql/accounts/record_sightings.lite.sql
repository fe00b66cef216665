-- CROSS JOIN makes SQLite look up each given row instead of scanning all accounts.
WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS post, value ->> 2 AS at FROM json_each(?2))
INSERT INTO account_post_row
SELECT tweet.key, given.post, given.at FROM given
CROSS JOIN tweet
WHERE tweet.namespace = ?1 AND tweet.id = given.id
ON CONFLICT DO NOTHING
