-- Includes posts whose person only the id, or the visit that brought them, shows.
SELECT id FROM tweet
WHERE namespace = ?1
    AND (author_id = ?2 OR substr(id, 1, length(?2) + 6) = 'at://' || ?2 || '/'
        OR substr(id, 1, length(?2) + 1) = ?2 || '/')
UNION
SELECT tweet.id FROM tweet_way_row AS way
JOIN tweet ON tweet.key = way.tweet
WHERE tweet.namespace = ?1 AND way.pipeline = 'visit' AND way.source = ?2 AND tweet.author_id IS NULL
