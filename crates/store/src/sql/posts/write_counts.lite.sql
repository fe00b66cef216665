-- Writes counts that came with posts into their rows. `MATERIALIZED` as in promote.lite.sql. They are an answer, but no
-- lookup: state, due time and the rest of the object stay as recorded. A missing post may be blanked, so it accepts
-- none.
WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS at, value ->> 2 AS retweet_count,
    value ->> 3 AS favorite_count, value ->> 4 AS reply_count, value ->> 5 AS quote_count,
    value ->> 6 AS bookmark_count, value ->> 7 AS impression_count
    FROM json_each(?2))
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
WHERE tweet.namespace = ?1 AND tweet.id = given.id AND tweet.state <> 'dead' AND tweet.misses = 0
    AND (tweet.checked_at IS NULL OR tweet.checked_at < given.at)
