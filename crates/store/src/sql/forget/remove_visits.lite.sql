DELETE FROM tweet_way_row
WHERE pipeline = 'visit' AND source = ?2 AND tweet IN (SELECT value ->> 0 FROM json_each(?1))
