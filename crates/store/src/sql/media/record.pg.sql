-- Each medium is named once, in the order of the ids, so overlapping batches wait for each other and cannot deadlock. A
-- medium that waits again must be fetched: the same rule as `MediumSighting::needs_fetch`, with its pause of 86,400,000
-- ms.
WITH known AS (
    INSERT INTO media AS of (namespace, id, url, kind, state, first_at)
    SELECT $1, tweet.id, value ->> 1, value ->> 2, 'waiting', (value ->> 3)::bigint
    FROM json_array_elements($2::json) AS given (value)
    JOIN tweet ON tweet.namespace = $1 AND tweet.id = value ->> 0
    ORDER BY tweet.id COLLATE "C"
    ON CONFLICT (namespace, id) DO UPDATE SET
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
)
INSERT INTO media_use
SELECT $1, tweet.id, value ->> 1, (value ->> 2)::bigint FROM json_array_elements($3::json) AS given (value)
JOIN tweet ON tweet.namespace = $1 AND tweet.id = value ->> 0
ORDER BY tweet.id COLLATE "C", value ->> 1
ON CONFLICT DO NOTHING
