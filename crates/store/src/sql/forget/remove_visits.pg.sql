-- Others' posts that it showed. Visits to its own posts are removed with them.
WITH gone AS (
    DELETE FROM tweet_way AS way
    USING tweet
    WHERE way.namespace = ANY($1) AND way.pipeline = 'visit' AND way.source = ANY($2)
        AND tweet.namespace = way.namespace AND tweet.id = way.id AND tweet.author_id IS NOT NULL
    RETURNING 1
)
SELECT count(*) FROM gone
