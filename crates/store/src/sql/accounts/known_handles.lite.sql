-- Number of given handles that wait already. CROSS JOIN makes SQLite look up each of them instead of scanning all
-- waiting ones.
SELECT count(*) FROM json_each(?2) AS given
CROSS JOIN account_handle AS of
WHERE of.namespace = ?1 AND of.handle = given.value AND of.reason IS NULL
