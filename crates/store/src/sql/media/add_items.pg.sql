INSERT INTO tweet (namespace, id, state, first_seen, next_due, lookups, misses)
SELECT $1, value ->> 0, 'live', (value ->> 3)::bigint, (value ->> 3)::bigint, 0, 0
FROM json_array_elements($2::json) AS given (value) ORDER BY (value ->> 0) COLLATE "C"
ON CONFLICT DO NOTHING
