-- In the order of the handles, so two calls with the same handles wait for each other.
INSERT INTO account_handle AS of (namespace, handle, at)
SELECT $1, handle, $3 FROM UNNEST($2::text[]) AS given (handle) ORDER BY handle COLLATE "C"
ON CONFLICT (namespace, handle) DO UPDATE SET at = excluded.at, until = 0, reason = NULL
WHERE of.reason IS NOT NULL
