SELECT json_array(shown.tweet) FROM account_post_row AS shown
CROSS JOIN tweet ON tweet.key = shown.tweet
WHERE shown.post > 'at://' || ?2 || '/' AND shown.post < 'at://' || ?2 || '0'
    AND tweet.namespace IN (SELECT value FROM json_each(?1))
