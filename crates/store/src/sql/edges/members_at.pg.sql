-- In the order of the answer, page by page. For an unknown limit the planner assumes a small part of the whole. For a
-- known one it assumes all rows, so each page would read and sort the list to its end.
SELECT edge.id AS owner, edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after,
    COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by,
    edge.cause, edge.seen_at, edge.member_number, edge.page_number, CAST(edge.closed_by AS BIGINT) AS end_number
FROM edge
WHERE edge.list = (SELECT key FROM list_owner WHERE namespace = $1 AND id = $2)
    AND COALESCE(edge.followed_at <= $3, edge.appeared_after < $3, TRUE)
    AND (edge.closed_by IS NULL OR COALESCE(edge.vanished_by > $3, TRUE))
    AND (edge.member_key, edge.first_page) > ($4, $5)
ORDER BY edge.member_key, edge.first_page LIMIT (SELECT $6)
