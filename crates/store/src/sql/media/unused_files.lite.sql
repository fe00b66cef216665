-- Files that may be removed now: not reserved since $1. $2: now.
UPDATE media_file SET removing = $2
WHERE sha256 IN (SELECT value FROM json_each($3)) AND at < $1 AND (removing IS NULL OR removing < $2 - 600000)
    AND NOT EXISTS (SELECT 1 FROM media_row WHERE media_row.sha256 = media_file.sha256 AND media_row.state = 'stored')
RETURNING sha256
