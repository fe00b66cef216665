SELECT member::bigint FROM list_edge
WHERE list = $1 AND member > $2 AND closed_by IS NULL ORDER BY list_edge.member LIMIT $3
