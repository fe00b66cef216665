SELECT account FROM community_account
WHERE namespace = $1 AND state = 'seen' AND appearances >= $2 ORDER BY appearances DESC, account LIMIT $3
