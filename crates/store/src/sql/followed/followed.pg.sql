SELECT account, part FROM visit WHERE namespace = $1 AND left_at IS NULL AND account = ANY($2)
