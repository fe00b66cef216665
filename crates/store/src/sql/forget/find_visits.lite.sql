SELECT json_array(way.tweet) FROM tweet_way_row AS way
CROSS JOIN tweet ON tweet.key = way.tweet
WHERE way.pipeline = 'visit' AND way.source = ?2 AND tweet.author_id IS NOT NULL
    AND tweet.namespace IN (SELECT value FROM json_each(?1))
