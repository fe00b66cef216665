-- The condition repeats that of the index word for word, since SQLite compares them literally.
SELECT id, state, created_at, next_due, checked_at, reason,
    COALESCE(
        (SELECT MIN(CASE WHEN pipeline = 'once' THEN 1 ELSE 0 END) FROM tweet_way
            WHERE tweet_way.namespace = tweet.namespace AND tweet_way.id = tweet.id), 0
    ) = 1 AS once
FROM tweet
WHERE namespace = $1 AND state = 'dead' AND id < $2 ORDER BY id DESC LIMIT $3
