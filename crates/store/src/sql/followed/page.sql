SELECT visit.account, visit.part, source_position.notes FROM visit
LEFT JOIN source_position ON source_position.namespace = visit.namespace AND source_position.source = visit.account
WHERE visit.namespace = $1 AND visit.account > $2 AND visit.left_at IS NULL ORDER BY visit.account LIMIT $3
