-- What an answer does to a row: one rule, the same text on PostgreSQL and SQLite.
-- `tweet` is the row, `excluded` the answer. What was seen shows in the answer's own columns:
--   returned  raw is given; and withheld, when withheld_in is given too
--   missing   missing_since is given
--   broken    neither is given
ON CONFLICT (namespace, id) DO UPDATE SET
    state            = excluded.state,
    created_at       = COALESCE(tweet.created_at, excluded.created_at),
    current_id       = COALESCE(excluded.current_id, tweet.current_id),
    text             = COALESCE(excluded.text, tweet.text),
    -- Withheld: what is stored is better than what came.
    author_id        = CASE WHEN excluded.withheld_in IS NULL THEN COALESCE(excluded.author_id, tweet.author_id)
                            ELSE COALESCE(tweet.author_id, excluded.author_id) END,
    author_name      = CASE WHEN excluded.withheld_in IS NULL THEN COALESCE(excluded.author_name, tweet.author_name)
                            ELSE COALESCE(tweet.author_name, excluded.author_name) END,
    raw              = CASE WHEN excluded.withheld_in IS NULL THEN COALESCE(excluded.raw, tweet.raw)
                            ELSE COALESCE(tweet.raw, excluded.raw) END,
    retweet_count    = COALESCE(excluded.retweet_count, tweet.retweet_count),
    favorite_count   = COALESCE(excluded.favorite_count, tweet.favorite_count),
    reply_count      = COALESCE(excluded.reply_count, tweet.reply_count),
    quote_count      = COALESCE(excluded.quote_count, tweet.quote_count),
    bookmark_count   = COALESCE(excluded.bookmark_count, tweet.bookmark_count),
    impression_count = COALESCE(excluded.impression_count, tweet.impression_count),
    withheld_in      = CASE WHEN excluded.raw IS NULL THEN tweet.withheld_in ELSE excluded.withheld_in END,
    -- Broken is no answer: the post is as old as it was.
    checked_at       = CASE WHEN excluded.raw IS NULL AND excluded.missing_since IS NULL THEN tweet.checked_at
                            ELSE excluded.checked_at END,
    -- The first answer with a count opens the history, whatever the starter had put into the row;
    -- after it, only a count that is given and differs continues it.
    changed_at       = CASE
        WHEN tweet.changed_at IS NULL THEN excluded.changed_at
        WHEN COALESCE(excluded.retweet_count, tweet.retweet_count) IS DISTINCT FROM tweet.retweet_count
          OR COALESCE(excluded.favorite_count, tweet.favorite_count) IS DISTINCT FROM tweet.favorite_count
          OR COALESCE(excluded.reply_count, tweet.reply_count) IS DISTINCT FROM tweet.reply_count
          OR COALESCE(excluded.quote_count, tweet.quote_count) IS DISTINCT FROM tweet.quote_count
          OR COALESCE(excluded.bookmark_count, tweet.bookmark_count) IS DISTINCT FROM tweet.bookmark_count
          OR COALESCE(excluded.impression_count, tweet.impression_count) IS DISTINCT FROM tweet.impression_count
        THEN excluded.checked_at
        ELSE tweet.changed_at END,
    next_due         = excluded.next_due,
    lookups          = CASE WHEN excluded.raw IS NULL AND excluded.missing_since IS NULL THEN tweet.lookups
                            ELSE tweet.lookups + excluded.lookups END,
    misses           = CASE WHEN excluded.raw IS NULL AND excluded.missing_since IS NULL THEN tweet.misses
                            ELSE excluded.misses END,
    missing_since    = CASE WHEN excluded.raw IS NULL AND excluded.missing_since IS NULL THEN tweet.missing_since
                            ELSE excluded.missing_since END
-- The same answer again (equal times) changes nothing, neither does an older one, nor any to the dead.
WHERE tweet.state <> 'dead' AND (tweet.checked_at IS NULL OR tweet.checked_at < excluded.checked_at)
