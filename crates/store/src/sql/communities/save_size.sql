INSERT INTO community_growth (namespace, at, seen, candidates, open, members, outside, posts, edges)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING
