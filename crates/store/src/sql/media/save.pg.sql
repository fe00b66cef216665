-- Media that accept a result. `there`: hashes of files that no process removes. A post may show a medium since it was
-- found unused. A removal of a file waits for saves that are about to name it, and sees them then.
WITH given AS MATERIALIZED (SELECT *
    FROM json_to_recordset($2::json) AS given (
        id text, state text, url text, bytes bigint, type text, sha256 text, attempts bigint, failing_since bigint,
        reason text, at bigint
    )),
there AS MATERIALIZED (SELECT sha256 FROM media_file
    WHERE sha256 IN (SELECT sha256 COLLATE "C" FROM given WHERE state = 'stored') AND removing IS NULL ORDER BY sha256
    FOR SHARE)
UPDATE media AS of
SET
    state = given.state, url = COALESCE(given.url, of.url), bytes = COALESCE(given.bytes, of.bytes),
    type = COALESCE(given.type, of.type), sha256 = COALESCE(given.sha256, of.sha256), attempts = given.attempts,
    failing_since = given.failing_since, reason = given.reason, checked_at = given.at
FROM given
WHERE of.namespace = $1 AND of.id = given.id COLLATE "C"
    AND ((of.state = 'waiting' AND (of.checked_at IS NULL OR of.checked_at <= given.at)
        AND (given.state <> 'stored' OR given.sha256 IN (SELECT sha256 FROM there)))
        OR (of.state = 'stored' AND given.state = 'removed'
            AND NOT EXISTS (SELECT 1 FROM media_use AS used WHERE used.namespace = $1 AND used.id = of.id)))
RETURNING of.id
