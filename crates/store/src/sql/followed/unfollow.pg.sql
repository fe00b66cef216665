-- Ends the lives in the pipelines of their parts; part 0 has the plain name.
WITH gone AS (
    UPDATE visit SET left_at = $2
    WHERE namespace = $1 AND left_at IS NULL AND account = ANY($3)
    RETURNING account, part
),
ended AS (
    UPDATE tweet SET state = 'ended', next_due = NULL FROM gone
    WHERE tweet.id = gone.account
        AND tweet.namespace = $1 || CASE WHEN gone.part = 0 THEN '' ELSE ':p' || gone.part END
        AND tweet.state IN ('live', 'unavailable')
)
SELECT account, part FROM gone
