-- Rows with a changed count in their newest answer that the history lacks. The statement depends on the rows, not on
-- the answers, so it can run again. It finds the rows by namespace and id.
INSERT INTO tweet_metrics_row
SELECT key, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count, impression_count
FROM tweet
WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND changed_at = checked_at
ON CONFLICT DO NOTHING
