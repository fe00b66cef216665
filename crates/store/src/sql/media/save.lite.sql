-- Media that accept a result. `there`: hashes of files that no process removes. A post may show a medium since it was
-- found unused.
WITH given AS MATERIALIZED (SELECT tweet.key, value ->> 'state' AS state, value ->> 'url' AS url,
    value ->> 'bytes' AS bytes, value ->> 'type' AS type, value ->> 'sha256' AS sha256,
    value ->> 'attempts' AS attempts, value ->> 'failing_since' AS failing_since, value ->> 'reason' AS reason,
    value ->> 'at' AS at
    FROM json_each(?2) CROSS JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 'id'),
there AS (SELECT sha256 FROM media_file WHERE sha256 IN (SELECT sha256 FROM given) AND removing IS NULL)
UPDATE media_row AS of
SET
    state = given.state, url = COALESCE(given.url, of.url), bytes = COALESCE(given.bytes, of.bytes),
    type = COALESCE(given.type, of.type), sha256 = COALESCE(given.sha256, of.sha256), attempts = given.attempts,
    failing_since = given.failing_since, reason = given.reason, checked_at = given.at
FROM given
WHERE of.tweet = given.key
    AND ((of.state = 'waiting' AND (of.checked_at IS NULL OR of.checked_at <= given.at)
        AND (given.state <> 'stored' OR given.sha256 IN (SELECT sha256 FROM there)))
        OR (of.state = 'stored' AND given.state = 'removed'
            AND NOT EXISTS (SELECT 1 FROM media_use_row AS used WHERE used.tweet = of.tweet)))
RETURNING (SELECT saved.id FROM tweet AS saved WHERE saved.key = tweet)
