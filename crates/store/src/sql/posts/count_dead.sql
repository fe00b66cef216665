SELECT count(*) FROM tweet WHERE namespace = $1 AND state = 'dead'
