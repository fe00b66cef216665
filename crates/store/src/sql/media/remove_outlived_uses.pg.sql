-- Uses by posts that are no longer stored. $2: the namespace of posts, $3: the time limit.
DELETE FROM media_use
WHERE namespace = $1 AND id = ANY($4) AND first_at < $3
    AND NOT EXISTS (SELECT 1 FROM tweet AS of
        WHERE of.namespace = $2 AND of.id = post AND NOT (of.misses > 0 AND of.lookups > of.misses AND of.raw IS NULL))
