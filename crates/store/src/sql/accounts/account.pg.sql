SELECT tweet.id, COALESCE(account.state, 'unknown') AS state, handle, display_name, description, location, url,
    picture, banner, protected, verified, account.withheld_in, moved_to, followers, following, posts, listed, likes,
    tweet.created_at, last_post_at, active_at, forgotten_at,
    (SELECT count(*) FROM account_post WHERE account_post.namespace = $1 AND account_post.id = $2) AS collected,
    tweet.first_seen, tweet.checked_at, tweet.next_due, tweet.lookups, tweet.misses, tweet.missing_since, tweet.raw
FROM tweet
LEFT JOIN account ON account.namespace = tweet.namespace AND account.id = tweet.id
WHERE tweet.namespace = $1 AND tweet.id = $2
