SELECT removing FROM media_file WHERE sha256 = ?1
