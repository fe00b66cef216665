-- The effect of an answer on a row, beside its state. For rows with a new state the program puts `(namespace, id)` and
-- the state into the first line. save.pg.sql and accounts/save.pg.sql have the same rule; a test compares them. `tweet`
-- is the row, `excluded` the answer, given at `excluded.first_seen`. Columns of the answer by its finding:
--   returned                     raw is given
--   deleted, and to be forgotten raw is empty
--   missing                      missing_since is given
--   broken                       unreadable is given, and checked_at is not
ON CONFLICT (key) DO UPDATE SET
    -- What the API says is better than what was read from an id; but a later version has its own date.
    created_at       = CASE WHEN excluded.current_id IS NULL THEN COALESCE(excluded.created_at, tweet.created_at)
                            ELSE COALESCE(tweet.created_at, excluded.created_at) END,
    -- A version that is missing is not asked for again: the first one names those that there are.
    current_id       = CASE WHEN excluded.unreadable IS NULL THEN excluded.current_id ELSE tweet.current_id END,
    -- A text that the network cut short does not replace a longer one of the same version. One that was cut here for its
    -- length does: it is the beginning of the newest.
    text             = CASE WHEN excluded.raw = '' THEN NULL
                            WHEN excluded.text IS NULL THEN tweet.text
                            WHEN excluded.truncated IS TRUE AND LENGTH(tweet.text) >= LENGTH(excluded.text)
                                 AND excluded.text NOT LIKE '%… [cut: % bytes]'
                                 AND tweet.current_id IS NOT DISTINCT FROM excluded.current_id THEN tweet.text
                            ELSE excluded.text END,
    truncated        = CASE WHEN excluded.truncated IS NULL THEN tweet.truncated
                            WHEN excluded.truncated IS TRUE AND LENGTH(tweet.text) >= LENGTH(excluded.text)
                                 AND excluded.text NOT LIKE '%… [cut: % bytes]'
                                 AND tweet.current_id IS NOT DISTINCT FROM excluded.current_id
                            THEN COALESCE(tweet.truncated, FALSE)
                            ELSE excluded.truncated END,
    author_id        = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.author_id, tweet.author_id) END,
    author_name      = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.author_name, tweet.author_name) END,
    lang             = COALESCE(excluded.lang, tweet.lang),
    reply_to         = COALESCE(excluded.reply_to, tweet.reply_to),
    reply_to_author  = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.reply_to_author, tweet.reply_to_author) END,
    retweet_of       = COALESCE(excluded.retweet_of, tweet.retweet_of),
    quote_of         = COALESCE(excluded.quote_of, tweet.quote_of),
    conversation_id  = COALESCE(excluded.conversation_id, tweet.conversation_id),
    reply_settings   = COALESCE(excluded.reply_settings, tweet.reply_settings),
    labels           = CASE WHEN excluded.raw = '' THEN NULL WHEN excluded.raw IS NULL THEN tweet.labels ELSE excluded.labels END,
    raw              = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.raw, tweet.raw) END,
    unreadable       = excluded.unreadable,
    retweet_count    = COALESCE(excluded.retweet_count, tweet.retweet_count),
    favorite_count   = COALESCE(excluded.favorite_count, tweet.favorite_count),
    reply_count      = COALESCE(excluded.reply_count, tweet.reply_count),
    quote_count      = COALESCE(excluded.quote_count, tweet.quote_count),
    bookmark_count   = COALESCE(excluded.bookmark_count, tweet.bookmark_count),
    impression_count = COALESCE(excluded.impression_count, tweet.impression_count),
    withheld_in      = CASE WHEN excluded.raw IS NULL OR excluded.raw = '' THEN tweet.withheld_in ELSE excluded.withheld_in END,
    -- Broken is no answer: the post is as old as it was.
    checked_at       = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.checked_at ELSE excluded.checked_at END,
    -- A miss has no counts: what was learnt from those before stays.
    recent           = CASE WHEN excluded.unreadable IS NOT NULL OR excluded.misses > 0 THEN tweet.recent
                            ELSE excluded.recent END,
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
    lookups          = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.lookups
                            ELSE tweet.lookups + excluded.lookups END,
    misses           = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.misses ELSE excluded.misses END,
    missing_since    = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.missing_since
                            ELSE excluded.missing_since END,
    missing_reason   = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.missing_reason
                            ELSE excluded.missing_reason END
-- The same answer again (equal times) changes nothing, neither does an older one, nor any to the dead.
WHERE tweet.state <> 'dead' AND (tweet.checked_at IS NULL OR tweet.checked_at < excluded.first_seen)
