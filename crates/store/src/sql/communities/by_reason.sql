SELECT reason, state, count(DISTINCT of.account) FROM community_appearance AS of
JOIN community_account AS known ON known.namespace = of.namespace AND known.account = of.account
WHERE of.namespace = $1 GROUP BY reason, state ORDER BY reason, state
