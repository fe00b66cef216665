SELECT state, count(*) FROM tweet WHERE namespace = $1 GROUP BY state
