UPDATE visit SET left_at = ?2
WHERE namespace = ?1 AND left_at IS NULL AND account IN (SELECT value FROM json_each(?3))
RETURNING account, part
