DELETE FROM media_use_row
WHERE post IN (SELECT value FROM json_each(?2))
    AND EXISTS (SELECT 1 FROM tweet AS medium WHERE medium.key = media_use_row.tweet AND medium.namespace = ?1)
