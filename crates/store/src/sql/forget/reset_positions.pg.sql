WITH gaps AS (DELETE FROM source_gap WHERE namespace = $1 AND source = ANY($2))
DELETE FROM source_position WHERE namespace = $1 AND source = ANY($2)
