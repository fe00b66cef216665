SELECT account FROM community_account
WHERE namespace = $1 AND judged_at IS NULL AND state <> 'seen' AND decided_at < $2 ORDER BY decided_at LIMIT $3
