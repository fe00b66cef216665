SELECT id, checked_at, misses, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
    impression_count, recent
FROM tweet
WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))
