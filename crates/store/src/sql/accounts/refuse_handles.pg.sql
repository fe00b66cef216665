UPDATE account_handle AS of SET reason = given.reason, at = $4, until = 0
FROM UNNEST($2::text[], $3::text[]) AS given (handle, reason)
WHERE of.namespace = $1 AND of.handle = given.handle COLLATE "C"
