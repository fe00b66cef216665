-- A person's decision stays, and an older judgement changes nothing.
WITH of AS MATERIALIZED (SELECT given.value ->> 0 AS account, given.value ->> 1 AS state,
    CAST(given.value ->> 2 AS DOUBLE PRECISION) AS score, given.value ->> 3 AS evidence,
    CAST(given.value ->> 4 AS BIGINT) AS posts
    FROM json_array_elements(CAST($2 AS json)) AS given (value))
UPDATE community_account
SET
    decided_at = CASE WHEN by_hand IS NULL AND community_account.state <> of.state THEN $3 ELSE decided_at END,
    state = CASE WHEN by_hand IS NULL THEN of.state ELSE community_account.state END, judged_at = $3, rule = $4,
    judged_posts = of.posts, score = of.score, evidence = of.evidence
FROM of
WHERE community_account.namespace = $1 AND community_account.account = of.account
    AND community_account.state <> 'seen'
    AND (community_account.judged_at IS NULL OR community_account.judged_at <= $3)
