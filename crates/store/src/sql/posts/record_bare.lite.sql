-- Rows with only a known id. The effect on existing rows is that of revive.lite.sql.
INSERT INTO tweet (namespace, id, state, created_at, first_seen, next_due, lookups, misses)
SELECT ?1, value ->> 0, value ->> 1, value ->> 2, ?3, value ->> 3, 0, 0 FROM json_each(?2)
WHERE TRUE
ON CONFLICT (namespace, id) DO UPDATE SET
    state      = 'live',
    created_at = COALESCE(tweet.created_at, excluded.created_at),
    next_due   = excluded.next_due
WHERE tweet.state = 'ended' AND excluded.next_due IS NOT NULL
