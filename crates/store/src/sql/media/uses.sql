SELECT post, first_at FROM media_use WHERE namespace = $1 AND id = $2 ORDER BY first_at, post LIMIT $3
