INSERT INTO forgotten_person (hash, at) VALUES ($1, $2) ON CONFLICT DO NOTHING
