SELECT EXISTS (SELECT FROM source_position
    WHERE namespace = ANY($1) AND saved_at > $4 AND saved_at <= $5 AND NOT (namespace = $2 AND source = $3))
