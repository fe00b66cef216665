-- An unfollow waits for the lock, so a page is saved before it or not at all.
WITH visited AS MATERIALIZED (SELECT left_at, followed_at FROM visit WHERE namespace = $1 AND account = $2 FOR SHARE),
is_saved AS MATERIALIZED (SELECT
    WHERE CASE WHEN $12 IS NULL THEN NOT EXISTS (SELECT FROM visited)
        ELSE EXISTS (SELECT FROM visited WHERE left_at IS NULL AND followed_at = $12) END
        AND (NOT EXISTS (SELECT FROM forgotten_person) OR $2 IS NULL
            OR $2 <> ALL((SELECT forgotten_among($11))::text[]))),
gap AS (
    INSERT INTO source_gap (namespace, source, from_id, to_id, reason, noted_at)
    SELECT $1, $2, fresh.* FROM is_saved, UNNEST($5::text[], $6::text[], $7::text[], $8::bigint[]) AS fresh
    ON CONFLICT DO NOTHING
)
INSERT INTO source_position AS known (namespace, source, position, saved_at, brought_at, notes)
SELECT $1, $2, $3, $4, $4, $10 FROM is_saved
ON CONFLICT (namespace, source) DO UPDATE SET
    position = EXCLUDED.position, notes = COALESCE(EXCLUDED.notes, known.notes), saved_at = EXCLUDED.saved_at,
    brought_at = CASE WHEN $9 OR known.brought_at IS NULL THEN EXCLUDED.brought_at ELSE known.brought_at END,
    failing_since = NULL, failures = 0, error = NULL, failed_at = NULL
-- A start is saved only where no position is: an earlier reader may have stored posts above its own start.
WHERE NOT $13 OR known.position IS NULL
RETURNING known.saved_at
