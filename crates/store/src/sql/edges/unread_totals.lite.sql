-- Unread lists. $1: the namespace, $2: the time limit of waiting, $3: the members per page, $4: those of the longest
-- list, $5: the namespace of profiles. It repeats the condition of the index of live items word for word.
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
            LEFT JOIN list_crawl AS crawl ON crawl.list = of.key AND crawl.ended_at IS NULL
            LEFT JOIN tweet AS profile ON profile.namespace = $5 AND profile.id = of.id
            LEFT JOIN account_row AS account ON account.tweet = profile.key
            WHERE of.namespace = $1 AND of.state IN ('live', 'unavailable') AND of.state = 'live'
                AND of.checked_at IS NULL) AS list) AS cut) AS counted
