SELECT tweet.id, tweet.checked_at, tweet.next_due, tweet.state, tweet.first_seen, account.active_at,
    (SELECT MAX(at) FROM account_change_row WHERE account_change_row.tweet = tweet.key) AS changed_at,
    account.followers, account.following, account.posts, account.listed, account.likes, tweet.recent, tweet.misses
FROM tweet
LEFT JOIN account_row AS account ON account.tweet = tweet.key
WHERE tweet.namespace = ?1 AND tweet.id IN (SELECT value FROM json_each(?2))
