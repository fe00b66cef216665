-- What counts of a known time do to a row, which came with a page of a timeline, a search or a stream: one rule, the same text on
-- PostgreSQL and SQLite. `tweet` is the row, `given` the counts, read at `given.at`. They are an answer, but no lookup: what else
-- the object said stays as the starter recorded it, and so do state and due time.
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
