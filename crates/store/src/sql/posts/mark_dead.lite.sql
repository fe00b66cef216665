-- All that is known of the post stays. Marked again, it keeps its first reason.
ON CONFLICT (namespace, id) DO UPDATE SET
    state    = 'dead',
    next_due = NULL,
    reason   = excluded.reason
WHERE tweet.state <> 'dead'
