SELECT account FROM community_account
WHERE namespace = $1 AND follows = $3 AND account IN (SELECT given.value ->> 0 FROM json_each($2) AS given)
