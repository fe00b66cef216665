-- Just marked files that a medium names which was saved meanwhile.
UPDATE media_file SET removing = NULL
WHERE sha256 = ANY($2) AND removing = $1
    AND EXISTS (SELECT 1 FROM media WHERE media.sha256 = media_file.sha256 AND media.state = 'stored')
RETURNING sha256
