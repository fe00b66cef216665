-- What keeps a source from being read: the same text on PostgreSQL and SQLite, which put the row before it.
ON CONFLICT (namespace, source) DO UPDATE SET
    failing_since = excluded.failing_since, failures = excluded.failures, error = excluded.error,
    failed_at = excluded.failed_at
