-- Writes counts that came with posts, with rows locked in the order of their ids, and continues the histories. They are
-- an answer, but no lookup: state, due time and the rest of the object stay as recorded. A missing post may be blanked,
-- so it accepts none.
WITH given AS MATERIALIZED (SELECT tweet.id, (of.value ->> 1)::bigint AS at,
    (of.value ->> 2)::bigint AS retweet_count, (of.value ->> 3)::bigint AS favorite_count,
    (of.value ->> 4)::bigint AS reply_count, (of.value ->> 5)::bigint AS quote_count,
    (of.value ->> 6)::bigint AS bookmark_count, (of.value ->> 7)::bigint AS impression_count
    FROM json_array_elements($2::json) AS of (value)
    JOIN tweet ON tweet.namespace = $1 AND tweet.id = of.value ->> 0
    ORDER BY tweet.id FOR UPDATE OF tweet),
written AS (
    UPDATE tweet SET
        checked_at       = given.at,
        changed_at       = CASE
            WHEN tweet.changed_at IS NULL
              OR COALESCE(given.retweet_count, tweet.retweet_count) IS DISTINCT FROM tweet.retweet_count
              OR COALESCE(given.favorite_count, tweet.favorite_count) IS DISTINCT FROM tweet.favorite_count
              OR COALESCE(given.reply_count, tweet.reply_count) IS DISTINCT FROM tweet.reply_count
              OR COALESCE(given.quote_count, tweet.quote_count) IS DISTINCT FROM tweet.quote_count
              OR COALESCE(given.bookmark_count, tweet.bookmark_count) IS DISTINCT FROM tweet.bookmark_count
              OR COALESCE(given.impression_count, tweet.impression_count) IS DISTINCT FROM tweet.impression_count
            THEN given.at
            ELSE tweet.changed_at END,
        retweet_count    = COALESCE(given.retweet_count, tweet.retweet_count),
        favorite_count   = COALESCE(given.favorite_count, tweet.favorite_count),
        reply_count      = COALESCE(given.reply_count, tweet.reply_count),
        quote_count      = COALESCE(given.quote_count, tweet.quote_count),
        bookmark_count   = COALESCE(given.bookmark_count, tweet.bookmark_count),
        impression_count = COALESCE(given.impression_count, tweet.impression_count),
        -- As of the answer before: guessed from the counts again.
        recent           = NULL
    FROM given
    WHERE tweet.namespace = $1 AND tweet.id = given.id AND tweet.state <> 'dead' AND tweet.misses = 0
        AND (tweet.checked_at IS NULL OR tweet.checked_at < given.at)
    RETURNING changed_at, tweet.namespace, tweet.id, tweet.checked_at, tweet.retweet_count, tweet.favorite_count,
        tweet.reply_count, tweet.quote_count, tweet.bookmark_count, tweet.impression_count
)
INSERT INTO tweet_metrics (
    namespace, id, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
    impression_count
)
SELECT namespace, id, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
    impression_count
FROM written
WHERE changed_at = checked_at
ON CONFLICT DO NOTHING
