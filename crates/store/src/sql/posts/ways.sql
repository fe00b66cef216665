SELECT pipeline, source, query, first_at FROM tweet_way
WHERE namespace = $1 AND id = $2 ORDER BY first_at, pipeline, source
