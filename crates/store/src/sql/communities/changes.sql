SELECT at, old_state, new_state, rule, by_hand FROM community_change
WHERE namespace = $1 AND account = $2 ORDER BY at, new_state
