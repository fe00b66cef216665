-- A lookup under way may have restored a post, which then has no way. The account is looked up by its id, and its
-- posts by theirs.
SELECT of.account, tweet.id AS post FROM community_account AS of
CROSS JOIN account_post
CROSS JOIN tweet
WHERE of.namespace = $1
    AND of.account = ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)))
    AND of.state = 'outside'
    AND NOT EXISTS (SELECT 1 FROM community_change AS change
        WHERE change.namespace = $1 AND change.account = of.account AND change.new_state = 'member')
    AND NOT EXISTS (SELECT 1 FROM visit
        WHERE visit.namespace = $6 AND visit.account IN (of.account, tweet.author_id) AND visit.left_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM json_array_elements(CAST($5 AS json)) AS searches (value)
        CROSS JOIN community_account AS other
        WHERE other.namespace = searches.value ->> 0 AND other.account = of.account
            AND other.state IN ('candidate', 'open', 'member'))
    AND account_post.namespace = $4 AND account_post.id = of.account AND tweet.namespace = $3
    AND tweet.id = account_post.post
    AND NOT EXISTS (SELECT 1 FROM tweet_way AS way
        WHERE way.namespace = $3 AND way.id = tweet.id AND NOT (way.pipeline = 'visit' AND way.source = of.account))
    AND (tweet.first_seen >= of.decided_at
        OR EXISTS (SELECT 1 FROM tweet_way AS way WHERE way.namespace = $3 AND way.id = tweet.id))
LIMIT $7
