-- A crawl under way may already have closed an edge: the time of its newest page then acts as its end.
SELECT edge.id AS owner, edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after,
    COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by,
    edge.cause, edge.seen_at, edge.member_number, edge.page_number, CAST(edge.closed_by AS BIGINT) AS end_number
FROM edge
WHERE edge.namespace = $1 AND edge.appeared_by >= $2 AND edge.appeared_by < $3
    AND (edge.appeared_by, edge.first_page, edge.member_key) > ($4, $5, $6)
ORDER BY edge.appeared_by, edge.first_page, edge.member_key LIMIT (SELECT $7)
