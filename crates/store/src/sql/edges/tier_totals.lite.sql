-- Read lists by tier. $1: the namespace, $2 and $3: the first two intervals, $4 to $6: the time limits of old reads. It
-- repeats the condition of the index of live items word for word.
SELECT CAST(tier AS BIGINT) AS tier, COUNT(*) AS lists, COUNT(at) AS complete, MIN(at) AS oldest_at,
    MAX(CASE WHEN place = (reads + 1) / 2 THEN at END) AS median_at,
    COUNT(CASE WHEN at < CASE tier WHEN 0 THEN $4 WHEN 1 THEN $5 ELSE $6 END THEN 1 END) AS too_old,
    CAST(AVG(pages) AS DOUBLE PRECISION) AS pages
FROM (SELECT tier, at, pages, COUNT(at) OVER (PARTITION BY tier) AS reads,
    ROW_NUMBER() OVER (PARTITION BY tier ORDER BY at NULLS LAST) AS place
    FROM (SELECT CASE WHEN COALESCE(of.next_due - of.checked_at, 0) <= $2 THEN 0
        WHEN of.next_due - of.checked_at <= $3 THEN 1
        ELSE 2 END AS tier, whole.ended_at AS at, whole.pages
        FROM tweet AS of
        LEFT JOIN list_crawl AS whole ON whole.key = (
            SELECT key FROM list_crawl WHERE list = of.key AND ended = 'complete' ORDER BY key DESC LIMIT 1
        )
        WHERE of.namespace = $1 AND of.state IN ('live', 'unavailable') AND of.state = 'live'
            AND of.checked_at IS NOT NULL) AS list) AS placed
GROUP BY tier ORDER BY tier
