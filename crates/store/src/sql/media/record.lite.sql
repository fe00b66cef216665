-- `CROSS JOIN` makes SQLite start with the given media. Otherwise it scans the namespace and reads the JSON again for
-- each row. A medium that waits again must be fetched: the same rule as `MediumSighting::needs_fetch`, with its pause
-- of 86,400,000 ms.
INSERT INTO media_row AS of (tweet, url, kind, state, first_at)
SELECT tweet.key, value ->> 1, value ->> 2, 'waiting', value ->> 3 FROM json_each(?2)
CROSS JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 0
WHERE TRUE
ON CONFLICT (tweet) DO UPDATE SET
    url = excluded.url, state = 'waiting',
    kind = CASE excluded.kind WHEN 'unknown' THEN of.kind ELSE excluded.kind END,
    attempts = CASE of.state WHEN 'waiting' THEN of.attempts ELSE 0 END,
    failing_since = CASE of.state WHEN 'waiting' THEN of.failing_since END,
    reason = CASE of.state WHEN 'waiting' THEN of.reason END
WHERE NOT (excluded.kind = 'photo' AND of.kind IN ('video', 'gif'))
    AND (of.state = 'removed' OR (of.kind = 'photo' AND excluded.kind IN ('video', 'gif'))
        OR (of.url <> excluded.url
            AND (of.state = 'waiting'
                OR (of.state IN ('gone', 'refused', 'failed') AND of.checked_at < excluded.first_at - 86400000))))
