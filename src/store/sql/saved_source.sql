-- What is kept of a source between two polls: the same text on PostgreSQL and SQLite.
SELECT position, failing_since, failures, error, failed_at, notes FROM source_position WHERE namespace = $1 AND source = $2
