SELECT CAST($2 AS BIGINT) AS at,
    (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'seen') AS seen,
    (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'candidate') AS candidates,
    (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'open') AS open,
    (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'member') AS members,
    (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'outside') AS outside,
    CASE WHEN CAST($3 AS TEXT) IS NULL THEN 0 ELSE (SELECT count(*) FROM tweet WHERE namespace = $3) END AS posts,
    CASE WHEN CAST($3 AS TEXT) IS NULL THEN 0
        ELSE (SELECT CAST(COALESCE(SUM(appeared), 0) AS BIGINT) FROM list_crawl) END AS edges
