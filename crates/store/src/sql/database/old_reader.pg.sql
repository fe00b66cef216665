-- Oldest transaction in this database that is older than $1 ms, also a prepared one. Only members of
-- `pg_read_all_stats` see sessions of other roles.
SELECT age, what
FROM (SELECT (extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint AS age,
    concat_ws(
        ', ', 'the transaction of process ' || pid, 'user ' || usename, NULLIF(application_name, ''), state
    ) AS what
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    UNION ALL
    SELECT (extract(epoch FROM clock_timestamp() - prepared) * 1000)::bigint, 'the prepared transaction ' || gid
    FROM pg_prepared_xacts
    WHERE database = current_database()) AS known
WHERE age > $1 ORDER BY age DESC LIMIT 1
