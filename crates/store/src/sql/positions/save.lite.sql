INSERT INTO source_position (namespace, source, position, saved_at, brought_at, notes) VALUES (?1, ?2, ?3, ?4, ?4, ?6)
ON CONFLICT DO UPDATE SET
    notes = COALESCE(excluded.notes, notes), position = excluded.position, saved_at = excluded.saved_at,
    brought_at = CASE WHEN ?5 OR brought_at IS NULL THEN excluded.brought_at ELSE brought_at END,
    failing_since = NULL, failures = 0, error = NULL, failed_at = NULL
-- A start is saved only where no position is: an earlier reader may have stored posts above its own start.
WHERE NOT ?7 OR position IS NULL
