-- Times of a list never go back. The start is no later than the claim. The time of a page is the upper bound for all
-- its events, and may be long after the claim.
INSERT INTO list_crawl (list, kind, stops_after, started_at, newest_at, stated_total, appeared_after)
SELECT $1, $2, $3, started, newest, $5,
    (SELECT MAX(started_at) FROM list_crawl WHERE list = $1 AND ended = 'complete')
FROM (SELECT GREATEST($4, MAX(started_at)) AS started, GREATEST($4, MAX(newest_at)) AS newest FROM list_crawl
    WHERE list = $1) AS before
ON CONFLICT DO NOTHING
