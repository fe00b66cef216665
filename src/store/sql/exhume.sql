-- What an exhumation does to a row that is there: one rule, the same text on PostgreSQL and SQLite.
-- Only the dead are exhumed, so that repeating it changes nothing.
ON CONFLICT (namespace, id) DO UPDATE SET
    state         = excluded.state,
    created_at    = COALESCE(tweet.created_at, excluded.created_at),
    next_due      = excluded.next_due,
    misses        = 0,
    missing_since = NULL,
    reason        = NULL
WHERE tweet.state = 'dead'
