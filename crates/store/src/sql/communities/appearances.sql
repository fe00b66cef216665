SELECT source, reason, post, first_at FROM community_appearance
WHERE namespace = $1 AND account = $2 ORDER BY first_at, source, reason LIMIT $3
