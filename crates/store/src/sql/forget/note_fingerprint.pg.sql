INSERT INTO forgotten_key (fingerprint) VALUES ($1) ON CONFLICT DO NOTHING
