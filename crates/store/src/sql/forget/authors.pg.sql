SELECT id, author_id FROM tweet WHERE namespace = $1 AND id = ANY($2)
