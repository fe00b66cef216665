SELECT account FROM community_account
WHERE namespace IN (SELECT value FROM json_each(?3)) AND account IN (SELECT value FROM json_each(?2)) AND follows = 1
GROUP BY account
HAVING min(namespace = ?1)
