-- What kept a source ($1, $2) from being read since $3, so often ($4), why ($5) and when last ($6): the same text on
-- PostgreSQL and SQLite.
INSERT INTO source_position (namespace, source, brought_at, failing_since, failures, error, failed_at)
VALUES ($1, $2, $3, $3, $4, $5, $6)
ON CONFLICT (namespace, source) DO UPDATE SET
    failing_since = excluded.failing_since, failures = excluded.failures, error = excluded.error,
    failed_at = excluded.failed_at
