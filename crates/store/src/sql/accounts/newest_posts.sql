SELECT post FROM account_post WHERE namespace = $1 AND id = $2 ORDER BY at DESC, post DESC LIMIT $3
