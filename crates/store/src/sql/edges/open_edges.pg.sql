SELECT edge.member::bigint, edge.first_page::bigint, edge.followed_at FROM UNNEST($2::bigint[]) AS given (member)
CROSS JOIN LATERAL (SELECT member, first_page, followed_at FROM list_edge
    WHERE list = $1 AND list_edge.member = given.member AND closed_by IS NULL LIMIT 1) AS edge
