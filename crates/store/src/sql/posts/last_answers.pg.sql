SELECT id, checked_at, misses, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
    impression_count, recent
FROM tweet
WHERE namespace = $1 AND id = ANY($2)
