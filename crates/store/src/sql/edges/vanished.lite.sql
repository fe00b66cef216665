-- A crawl under way may already have closed an edge: the time of its newest page then acts as its end.
SELECT tweet.id AS owner, edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after,
    COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by,
    edge.cause, edge.seen_at, edge.member_number, edge.page_number, CAST(edge.closed_by AS BIGINT) AS end_number
FROM list_crawl AS gone
CROSS JOIN edge_row AS edge ON edge.closed_by = gone.key
JOIN tweet ON tweet.key = edge.tweet
WHERE namespace = ?1 AND gone.ended_at >= ?2 AND gone.ended_at < ?3
    AND (gone.ended_at, edge.closed_by, member_key) > (?4, ?5, ?6)
ORDER BY gone.ended_at, edge.closed_by, member_key LIMIT ?7
