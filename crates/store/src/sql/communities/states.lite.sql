SELECT account, state, by_hand IS NOT NULL AS is_by_hand, posts FROM community_account
WHERE namespace = $1 AND account IN (SELECT given.value ->> 0 FROM json_each($2) AS given)
