SELECT id, url, kind, state, bytes, type, sha256, attempts, failing_since, reason, first_at, checked_at FROM media
WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))
