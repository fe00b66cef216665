INSERT INTO media_file (sha256, bytes, at) VALUES (?1, ?2, ?3)
ON CONFLICT (sha256) DO UPDATE SET at = MAX(at, excluded.at), removing = NULL
