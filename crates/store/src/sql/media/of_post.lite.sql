SELECT id, url, kind, state, bytes, type, sha256, attempts, failing_since, reason, first_at, checked_at FROM media
WHERE namespace = ?1
    AND id IN (SELECT tweet.id FROM media_use_row AS used
        JOIN tweet ON tweet.key = used.tweet
        WHERE used.post = ?2 AND tweet.namespace = ?1)
ORDER BY id
