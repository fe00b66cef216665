DELETE FROM tweet_way_row
WHERE pipeline = 'visit'
    AND tweet IN (SELECT key FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)))
