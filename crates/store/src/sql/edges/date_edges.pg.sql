-- A scalar subquery cannot be joined in another way either: see known_accounts.pg.sql.
UPDATE list_edge SET followed_at = given.followed_at
FROM UNNEST($2::bigint[], $3::bigint[]) AS given (member, followed_at)
WHERE list = $1 AND list_edge.member = given.member AND closed_by IS NULL AND list_edge.followed_at IS NULL
    AND (SELECT first.at >= given.followed_at AND COALESCE(since.appeared_after < given.followed_at, TRUE)
        FROM list_page AS first
        JOIN list_crawl AS since ON since.key = first.crawl
        WHERE first.key = list_edge.first_page)
