SELECT at, seen, candidates, open, members, outside, posts, edges
FROM (SELECT * FROM community_growth WHERE namespace = $1 AND at >= $2 ORDER BY at DESC LIMIT $3) AS newest
ORDER BY at
