SELECT DISTINCT used.id FROM media_use AS used
WHERE used.namespace = $1 AND used.post = ANY($2)
    AND NOT EXISTS (SELECT FROM media_use AS other
        WHERE other.namespace = used.namespace AND other.id = used.id AND NOT other.post = ANY($2))
