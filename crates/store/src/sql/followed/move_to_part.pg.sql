UPDATE visit SET part = $2 WHERE namespace = $1 AND left_at IS NULL AND account = ANY($3)
