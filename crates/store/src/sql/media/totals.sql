SELECT state, count(*) AS media, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM media
WHERE namespace = $1 GROUP BY state ORDER BY state
