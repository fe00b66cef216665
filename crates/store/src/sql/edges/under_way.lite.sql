SELECT CAST(crawl.key AS BIGINT) AS key, CAST(crawl.list AS BIGINT) AS list, crawl.kind, crawl.stops_after,
    crawl.started_at, crawl.appeared_after, crawl.cursor, crawl.newest_at, crawl.known_tail, crawl.pages, crawl.found,
    crawl.unreadable, crawl.stated_total
FROM tweet
JOIN list_crawl AS crawl ON crawl.list = tweet.key AND crawl.ended_at IS NULL
WHERE tweet.namespace = ?1 AND tweet.id = ?2
