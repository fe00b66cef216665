-- What the starter does to a row that is there: one rule, the same text on PostgreSQL and SQLite.
-- `tweet` is the row, `excluded` what the starter brings. The live and the dead stay as they are.
ON CONFLICT (namespace, id) DO UPDATE SET
    state         = 'live',
    created_at    = COALESCE(tweet.created_at, excluded.created_at),
    next_due      = excluded.next_due,
    misses        = 0,
    missing_since = NULL
WHERE tweet.state IN ('ended', 'unavailable') AND excluded.next_due IS NOT NULL
