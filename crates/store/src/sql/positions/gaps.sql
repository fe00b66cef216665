SELECT from_id, to_id, reason, noted_at FROM source_gap
WHERE namespace = $1 AND source = $2 ORDER BY noted_at, from_id
