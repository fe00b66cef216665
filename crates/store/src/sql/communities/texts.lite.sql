-- Newest posts of one account: SQLite has no lateral joins. CROSS JOIN stops it from scanning all posts.
SELECT $2 AS account, tweet.id, tweet.text
FROM (SELECT post FROM account_post WHERE namespace = $3 AND id = $2 ORDER BY at DESC, post DESC LIMIT $4) AS newest
CROSS JOIN tweet
WHERE tweet.namespace = $1 AND tweet.id = newest.post AND tweet.text IS NOT NULL AND tweet.retweet_of IS NULL
    AND (tweet.author_id IS NULL OR tweet.author_id = $2)
