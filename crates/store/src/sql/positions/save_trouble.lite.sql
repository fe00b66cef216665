INSERT INTO source_position (namespace, source, brought_at, failing_since, failures, error, failed_at)
SELECT $1, $2, $3, $3, $4, $5, $6
WHERE TRUE
ON CONFLICT (namespace, source) DO UPDATE SET
    failing_since = excluded.failing_since, failures = excluded.failures, error = excluded.error,
    failed_at = excluded.failed_at
