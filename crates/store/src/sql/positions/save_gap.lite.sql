INSERT INTO source_gap (namespace, source, from_id, to_id, reason, noted_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING
