SELECT key FROM tweet WHERE namespace = ?1 AND id = ?2
