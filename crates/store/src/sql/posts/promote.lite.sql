-- Brings lookups forward. `MATERIALIZED` and the `+` stop SQLite from scanning the namespace and reading the JSON
-- again for each row.
WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS due FROM json_each(?2))
UPDATE tweet SET next_due = given.due FROM given
WHERE tweet.namespace = ?1 AND tweet.id = given.id AND +state IN ('live', 'unavailable')
    AND (next_due IS NULL OR next_due > given.due)
