INSERT INTO visit (namespace, account, part, followed_at)
SELECT ?1, value ->> 0, value ->> 1, ?2 FROM json_each(?3)
WHERE TRUE
ON CONFLICT (namespace, account) DO UPDATE SET
    part = excluded.part, followed_at = excluded.followed_at, left_at = NULL
WHERE left_at IS NOT NULL
