SELECT account FROM visit WHERE namespace = ?1 AND left_at IS NULL AND account IN (SELECT value FROM json_each(?2))
