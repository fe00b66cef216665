SELECT DISTINCT medium.id FROM media_use_row AS used
JOIN tweet AS medium ON medium.key = used.tweet
WHERE medium.namespace = ?1 AND used.post IN (SELECT value FROM json_each(?2))
    AND NOT EXISTS (SELECT 1 FROM media_use_row AS other
        WHERE other.tweet = used.tweet AND other.post NOT IN (SELECT value FROM json_each(?2)))
