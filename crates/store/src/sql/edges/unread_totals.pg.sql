-- Unread lists. $1: the namespace, $2: the time limit of waiting, $3: the members per page, $4: those of the longest
-- list, $5: the namespace of profiles. It repeats the condition of the index of live items word for word. Subqueries
-- with a LIMIT, so that the planner looks up each list separately: see known_accounts.pg.sql.
SELECT COUNT(*) AS lists, COUNT(CASE WHEN first_seen < $2 THEN 1 END) AS overdue, MIN(first_seen) AS oldest_at,
    COALESCE(
        SUM(CAST(
            CASE WHEN expected - read > 1 THEN expected - read
                WHEN expected IS NOT NULL THEN 1 END AS DOUBLE PRECISION
        )), 0.0
    ) AS pages, COUNT(CASE WHEN expected IS NULL THEN 1 END) AS unknown,
    COALESCE(SUM(CAST(CASE WHEN expected IS NULL THEN read END AS DOUBLE PRECISION)), 0.0) AS unknown_read
FROM (SELECT first_seen, read, members / $3 + CASE WHEN members % $3 > 0 THEN 1 ELSE 0 END AS expected
    FROM (SELECT first_seen, read, CASE WHEN $4 > 0 AND stated > $4 THEN $4 ELSE stated END AS members
        FROM (SELECT of.first_seen, COALESCE(crawl.pages, 0) AS read,
            COALESCE(
                CASE WHEN $1 LIKE 'followers:%' THEN account.followers ELSE account.following END, crawl.stated_total
            ) AS stated
            FROM tweet AS of
            LEFT JOIN list_owner AS owner ON owner.namespace = of.namespace AND owner.id = of.id
            LEFT JOIN LATERAL (SELECT pages, stated_total
                FROM list_crawl WHERE list_crawl.list = owner.key AND ended_at IS NULL LIMIT 1) AS crawl ON TRUE
            LEFT JOIN LATERAL (SELECT followers, following
                FROM account WHERE account.namespace = $5 AND account.id = of.id LIMIT 1) AS account ON TRUE
            WHERE of.namespace = $1 AND of.state IN ('live', 'unavailable') AND of.state = 'live'
                AND of.checked_at IS NULL) AS list) AS cut) AS counted
