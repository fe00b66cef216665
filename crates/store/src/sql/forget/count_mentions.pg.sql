SELECT count(*) FROM tweet WHERE namespace = $1 AND position('"' || $2 || '"' in raw) > 0
