-- Includes posts whose person only the id, or the visit that brought them, shows.
SELECT id FROM tweet
WHERE namespace = $1 AND (author_id = $2 OR starts_with(id, 'at://' || $2 || '/') OR starts_with(id, $2 || '/'))
UNION
SELECT tweet.id FROM tweet_way AS way
JOIN tweet ON tweet.namespace = way.namespace AND tweet.id = way.id
WHERE way.namespace = $1 AND way.pipeline = 'visit' AND way.source = $2 AND tweet.author_id IS NULL
