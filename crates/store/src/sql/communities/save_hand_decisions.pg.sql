-- Candidates return to the rule. A confirmed state keeps the time of its first decision.
INSERT INTO community_account (namespace, account, state, first_at, admitted_at, decided_at, by_hand, why)
SELECT $1, given.value ->> 0, given.value ->> 1, $3, $3, $3, CASE WHEN given.value ->> 1 <> 'candidate' THEN $4 END,
    CASE WHEN given.value ->> 1 <> 'candidate' THEN $5 END
FROM json_array_elements(CAST($2 AS json)) AS given (value)
WHERE (NOT EXISTS (SELECT FROM forgotten_person) OR given.value ->> 0 IS NULL
    OR given.value ->> 0 <> ALL((SELECT forgotten_among($6))::text[]))
ON CONFLICT (namespace, account) DO UPDATE SET
    state = excluded.state,
    decided_at = CASE WHEN community_account.state <> excluded.state THEN excluded.decided_at
        ELSE community_account.decided_at END,
    admitted_at = COALESCE(community_account.admitted_at, excluded.admitted_at), by_hand = excluded.by_hand,
    why = excluded.why
