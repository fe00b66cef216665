UPDATE account_handle AS of SET reason = value ->> 1, at = ?3, until = 0 FROM json_each(?2)
WHERE of.namespace = ?1 AND of.handle = value ->> 0
