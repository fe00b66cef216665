-- Each part has an index. An account that has the handle again appears only in the first part.
SELECT id, CAST(NULL AS BIGINT) AS until, 0 AS place FROM account
WHERE namespace = $1 AND handle IS NOT NULL AND lower(handle) = lower($2)
UNION ALL
SELECT changed.id, MAX(changed.at), 1 FROM account_change AS changed
WHERE changed.namespace = $1 AND changed.field = 'handle' AND lower(changed.old_value) = lower($2)
    AND NOT EXISTS (SELECT 1 FROM account
        WHERE account.namespace = changed.namespace AND account.id = changed.id AND lower(account.handle) = lower($2))
GROUP BY changed.id ORDER BY place, until DESC, id LIMIT 100
