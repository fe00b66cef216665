-- Only the view's own columns. A join with the view would exceed `join_collapse_limit` by one table, and the planner
-- would start with a read of all edges.
SELECT edge.id AS owner, edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after,
    COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by,
    edge.cause, edge.seen_at, edge.member_number, edge.page_number, CAST(edge.closed_by AS BIGINT) AS end_number
FROM edge
WHERE edge.namespace = $1 AND edge.vanished_by >= $2 AND edge.vanished_by < $3
    AND (edge.vanished_by, edge.closed_by, edge.member_key) > ($4, $5, $6)
ORDER BY edge.vanished_by, edge.closed_by, edge.member_key LIMIT (SELECT $7)
