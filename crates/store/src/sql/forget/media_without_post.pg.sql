SELECT id FROM tweet
WHERE namespace = $1
    AND NOT EXISTS (SELECT FROM media_use AS used WHERE used.namespace = tweet.namespace AND used.id = tweet.id)
