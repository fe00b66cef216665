SELECT tweet.id, tweet.checked_at, tweet.next_due, tweet.state, tweet.first_seen, account.active_at,
    (SELECT MAX(at) FROM account_change AS changed WHERE changed.namespace = $1 AND changed.id = tweet.id)
        AS changed_at, account.followers, account.following, account.posts, account.listed, account.likes,
    tweet.recent, tweet.misses
FROM tweet
LEFT JOIN account ON account.namespace = tweet.namespace AND account.id = tweet.id
WHERE tweet.namespace = $1 AND tweet.id = ANY($2)
