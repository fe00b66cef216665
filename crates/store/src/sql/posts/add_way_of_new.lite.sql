INSERT INTO tweet_way_row SELECT key, ?1, ?2, ?3, ?4 FROM tweet WHERE key > ?5 ON CONFLICT DO NOTHING
