SELECT EXISTS (SELECT 1 FROM source_position
    WHERE namespace IN (SELECT value FROM json_each(?1)) AND saved_at > ?4 AND saved_at <= ?5
        AND NOT (namespace = ?2 AND source = ?3))
