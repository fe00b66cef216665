SELECT fingerprint FROM forgotten_key
