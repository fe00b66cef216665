-- Each post is looked up separately: the planner cannot join a subquery with a LIMIT in another way.
SELECT of.account, tweet.id, tweet.text
FROM (SELECT given.value ->> 0 AS account FROM json_array_elements(CAST($2 AS json)) AS given (value)) AS of
CROSS JOIN LATERAL (
    SELECT post FROM account_post WHERE namespace = $3 AND id = of.account ORDER BY at DESC, post DESC LIMIT $4
) AS newest
CROSS JOIN LATERAL (SELECT id, text FROM tweet
    WHERE tweet.namespace = $1 AND tweet.id = newest.post AND text IS NOT NULL AND retweet_of IS NULL
        AND (author_id IS NULL OR author_id = of.account)
    LIMIT 1) AS tweet
