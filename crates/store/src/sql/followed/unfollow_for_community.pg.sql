-- `known`: the marks of accounts in all communities, locked, so they include changes of concurrent calls. Ends the
-- lives in the pipelines of their parts; part 0 has the plain name.
WITH known AS MATERIALIZED (SELECT namespace, account, follows FROM community_account
    WHERE namespace = ANY($5) AND account = ANY($3) ORDER BY account, namespace FOR UPDATE),
gone AS (
    UPDATE visit SET left_at = $2
    WHERE namespace = $1 AND left_at IS NULL
        AND account = ANY(ARRAY(
            SELECT account FROM known WHERE follows = 1 GROUP BY account HAVING bool_and(namespace = $4)
        ))
    RETURNING account, part
),
ended AS (
    UPDATE tweet SET state = 'ended', next_due = NULL FROM gone
    WHERE tweet.id = gone.account
        AND tweet.namespace = $1 || CASE WHEN gone.part = 0 THEN '' ELSE ':p' || gone.part END
        AND tweet.state IN ('live', 'unavailable')
)
SELECT account, part FROM gone
