SELECT COALESCE((SELECT fingerprint FROM forgotten_key), '') WHERE EXISTS (SELECT FROM forgotten_person)
