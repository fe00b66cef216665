-- A crawl under way may already have closed an edge: the time of its newest page then acts as its end.
SELECT tweet.id AS owner, edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after,
    COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by,
    edge.cause, edge.seen_at, edge.member_number, edge.page_number, CAST(edge.closed_by AS BIGINT) AS end_number
FROM edge_row AS edge
JOIN tweet ON tweet.key = edge.tweet
WHERE edge.tweet = (SELECT key FROM tweet WHERE namespace = ?1 AND id = ?2)
    AND COALESCE(edge.followed_at <= ?3, edge.appeared_after < ?3, TRUE)
    AND (edge.closed_by IS NULL OR COALESCE(edge.vanished_by > ?3, TRUE)) AND (member_key, first_page) > (?4, ?5)
ORDER BY member_key, first_page LIMIT ?6
