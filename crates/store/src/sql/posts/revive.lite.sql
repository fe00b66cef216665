-- Only ended posts live again. Unavailable ones stay as they are, in store and queue alike: a deleted post that is sent
-- again and again must reach its end. For the same reason misses are kept; the next answer that finds the post clears
-- them.
ON CONFLICT (namespace, id) DO UPDATE SET
    state      = 'live',
    created_at = COALESCE(tweet.created_at, excluded.created_at),
    next_due   = excluded.next_due
WHERE tweet.state = 'ended' AND excluded.next_due IS NOT NULL
