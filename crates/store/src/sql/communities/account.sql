SELECT account, state, first_at, admitted_at, decided_at, appearances, posts, judged_at, rule, score, evidence,
    by_hand, why
FROM community_account
WHERE namespace = $1 AND account = $2
