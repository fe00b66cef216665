SELECT account FROM community_account
WHERE namespace = $1 AND judged_at IS NOT NULL AND (rule IS NULL OR rule <> $2) AND state <> 'seen' LIMIT $3
