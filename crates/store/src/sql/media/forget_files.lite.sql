DELETE FROM media_file WHERE sha256 IN (SELECT value FROM json_each(?1)) AND removing = ?2
