-- Every polled source, its number of gaps, and the latest $1 of them, a line each. Followed accounts, of which there
-- may be very many, are left out.
WITH gap AS (
    SELECT namespace, source, from_id, to_id, reason, noted_at,
           COUNT(*) OVER (PARTITION BY namespace, source) AS gaps,
           ROW_NUMBER() OVER (PARTITION BY namespace, source ORDER BY noted_at DESC, from_id DESC, to_id DESC) AS nth
    FROM source_gap
    WHERE namespace >= 'source:' AND namespace < 'source;'
)
SELECT source_position.namespace, source_position.source, position, saved_at, brought_at,
       failing_since, failures, error, failed_at, COALESCE(gaps, 0) AS gaps,
       CASE WHEN nth <= $1 THEN from_id END AS from_id, to_id, reason, noted_at
FROM source_position
LEFT JOIN gap ON gap.namespace = source_position.namespace AND gap.source = source_position.source
    AND nth <= CASE WHEN $1 < 1 THEN 1 ELSE $1 END -- the first tells how many there are
WHERE source_position.namespace >= 'source:' AND source_position.namespace < 'source;'
ORDER BY source_position.namespace, source_position.source, nth
