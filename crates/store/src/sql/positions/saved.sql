-- State of a source between two polls. One row, also of a source without a page.
SELECT known.position, known.failing_since, known.failures, known.error, known.failed_at, known.notes, visit.followed_at
FROM (SELECT 1) AS one
LEFT JOIN source_position AS known ON known.namespace = $1 AND known.source = $2
LEFT JOIN visit ON visit.namespace = $1 AND visit.account = $2 AND visit.left_at IS NULL
