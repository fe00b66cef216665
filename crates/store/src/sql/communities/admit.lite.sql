-- COALESCE stops SQLite from scanning all seen accounts.
UPDATE community_account SET state = 'candidate', admitted_at = $3, decided_at = $3
WHERE namespace = $1 AND COALESCE(state, '') = 'seen'
    AND account IN (SELECT given.value ->> 0 FROM json_each($2) AS given)
