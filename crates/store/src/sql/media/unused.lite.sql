SELECT id, url, kind, state, bytes, type, sha256, attempts, failing_since, reason, first_at, checked_at FROM media
WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state = 'stored'
    AND NOT EXISTS (SELECT 1 FROM media_use WHERE media_use.namespace = ?1 AND media_use.id = media.id)
ORDER BY id
