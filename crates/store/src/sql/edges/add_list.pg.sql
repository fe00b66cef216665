-- Returns the list's number and locks its row.
INSERT INTO list_owner (namespace, id)
SELECT namespace, id FROM tweet
WHERE namespace = $1 AND id = $2
ON CONFLICT (namespace, id) DO UPDATE SET id = excluded.id
RETURNING key::bigint
