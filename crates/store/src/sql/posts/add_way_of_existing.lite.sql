INSERT INTO tweet_way_row
SELECT key, ?1, ?2, ?3, ?4 FROM tweet
WHERE namespace = ?5 AND id IN (SELECT value FROM json_each(?6))
ON CONFLICT DO NOTHING
