SELECT id FROM media WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3
