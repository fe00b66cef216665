SELECT COALESCE((SELECT fingerprint FROM forgotten_key), '') WHERE EXISTS (SELECT 1 FROM forgotten_person)
