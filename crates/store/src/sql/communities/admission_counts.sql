-- Counts that limit a day's growth: accounts admitted since `$2`, members, and all ever admitted. Read only if an
-- account may be admitted. The statement names each state to use the index: most accounts are only *seen*.
SELECT (SELECT count(*) FROM community_account
    WHERE namespace = $1 AND state IN ('candidate', 'open', 'member', 'outside') AND admitted_at > $2),
    (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'member'),
    (SELECT count(*) FROM community_account
        WHERE namespace = $1 AND state IN ('candidate', 'open', 'member', 'outside'))
