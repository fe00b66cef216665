SELECT checked_at, followers, following, posts, listed, likes FROM account_count
WHERE namespace = $1 AND id = $2 ORDER BY checked_at
