SELECT tweet.id FROM tweet
JOIN media_row ON media_row.tweet = tweet.key
WHERE tweet.namespace = ?1 AND tweet.id > ?2 ORDER BY tweet.id LIMIT ?3
