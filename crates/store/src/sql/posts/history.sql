SELECT namespace, id, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
    impression_count
FROM tweet_metrics
WHERE namespace = $1 AND id = $2 ORDER BY checked_at
