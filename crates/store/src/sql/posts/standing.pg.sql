SELECT id, state, created_at, checked_at, misses, missing_since, first_seen, lookups, current_id, unreadable,
    retweet_count, favorite_count, reply_count, quote_count, bookmark_count, impression_count, recent,
    raw IS NULL AND lookups > misses AS is_blanked,
    COALESCE(
        (SELECT MIN(CASE WHEN pipeline = 'once' THEN 1 ELSE 0 END) FROM tweet_way
            WHERE tweet_way.namespace = tweet.namespace AND tweet_way.id = tweet.id), 0
    ) = 1 AS once
FROM tweet
WHERE namespace = $1 AND id = ANY($2)
