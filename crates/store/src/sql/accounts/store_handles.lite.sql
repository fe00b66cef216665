INSERT INTO account_handle AS of (namespace, handle, at)
SELECT ?1, value, ?3 FROM json_each(?2)
WHERE TRUE
ON CONFLICT (namespace, handle) DO UPDATE SET at = excluded.at, until = 0, reason = NULL
WHERE of.reason IS NOT NULL
