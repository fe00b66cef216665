-- What a burial does to a row that is there: one rule, the same text on PostgreSQL and SQLite.
-- All that is known of the tweet stays. Buried again, it keeps its first reason.
ON CONFLICT (namespace, id) DO UPDATE SET
    state    = 'dead',
    next_due = NULL,
    reason   = excluded.reason
WHERE tweet.state <> 'dead'
