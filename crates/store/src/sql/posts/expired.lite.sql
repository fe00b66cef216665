-- The same condition is in `forget.rs` of PostgreSQL. $3: the time, or NULL for deleted posts.
SELECT id FROM tweet
WHERE namespace = $1 AND id IN (SELECT value FROM json_each($2)) AND state = 'ended'
    AND CASE WHEN $3 IS NULL THEN misses > 0 AND lookups > misses AND raw IS NULL
        ELSE COALESCE(checked_at, first_seen) < $3 END
    AND NOT EXISTS (
        SELECT 1 FROM media WHERE media.namespace = tweet.namespace AND media.id = tweet.id AND media.state = 'stored'
    )
