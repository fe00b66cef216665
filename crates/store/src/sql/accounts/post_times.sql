SELECT at FROM account_post WHERE namespace = $1 AND id = $2 ORDER BY at DESC LIMIT $3
