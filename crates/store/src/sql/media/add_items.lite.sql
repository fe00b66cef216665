INSERT INTO tweet (namespace, id, state, first_seen, next_due, lookups, misses)
SELECT ?1, value ->> 0, 'live', value ->> 3, value ->> 3, 0, 0 FROM json_each(?2)
WHERE TRUE
ON CONFLICT DO NOTHING
