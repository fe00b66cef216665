-- Rows with a changed count in their newest answer that the history lacks. The statement depends on the rows, not on
-- the answers, so it can run again. It finds the rows by their keys, which is fast.
INSERT INTO tweet_metrics_row
SELECT key, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count, impression_count
FROM tweet
WHERE key IN (SELECT value FROM json_each(?1)) AND changed_at = checked_at
ON CONFLICT DO NOTHING
