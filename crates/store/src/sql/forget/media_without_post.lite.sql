SELECT id FROM tweet
WHERE namespace = ?1 AND NOT EXISTS (SELECT 1 FROM media_use_row WHERE media_use_row.tweet = tweet.key)
