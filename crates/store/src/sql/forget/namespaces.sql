-- Namespaces in `tweet`, found by jumps over the key. The program replaces `FROM tweet` by `FROM` and another table.
WITH RECURSIVE known (namespace) AS (SELECT MIN(namespace) FROM tweet
    UNION ALL
    SELECT (SELECT MIN(namespace) FROM tweet WHERE namespace > known.namespace) FROM known
    WHERE known.namespace IS NOT NULL)
SELECT namespace FROM known WHERE namespace IS NOT NULL
