-- Times of a list never go back. The start is no later than the claim. The time of a page is the upper bound for all
-- its events, and may be long after the claim.
INSERT INTO list_crawl (list, kind, stops_after, started_at, newest_at, stated_total, appeared_after)
SELECT of.key, ?3, ?4, started, newest, ?6,
    (SELECT MAX(started_at) FROM list_crawl AS other WHERE other.list = of.key AND other.ended = 'complete')
FROM (SELECT tweet.key,
    MAX(?5, COALESCE((SELECT MAX(started_at) FROM list_crawl WHERE list = tweet.key), ?5)) AS started,
    MAX(?5, COALESCE((SELECT MAX(newest_at) FROM list_crawl WHERE list = tweet.key), ?5)) AS newest
    FROM tweet WHERE namespace = ?1 AND id = ?2) AS of
WHERE TRUE
ON CONFLICT DO NOTHING
