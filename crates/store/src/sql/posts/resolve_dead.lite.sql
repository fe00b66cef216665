-- Only dead posts are resolved, so repeating it changes nothing.
ON CONFLICT (namespace, id) DO UPDATE SET
    state          = excluded.state,
    created_at     = COALESCE(tweet.created_at, excluded.created_at),
    next_due       = excluded.next_due,
    -- An id that no answer found has as many answers as misses: without the misses they would say that one found it.
    lookups        = CASE WHEN tweet.lookups > tweet.misses THEN tweet.lookups ELSE 0 END,
    misses         = 0,
    missing_since  = NULL,
    missing_reason = NULL,
    reason         = NULL
WHERE tweet.state = 'dead'
