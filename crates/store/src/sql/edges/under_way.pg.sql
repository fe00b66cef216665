SELECT CAST(crawl.key AS BIGINT) AS key, CAST(crawl.list AS BIGINT) AS list, crawl.kind, crawl.stops_after,
    crawl.started_at, crawl.appeared_after, crawl.cursor, crawl.newest_at, crawl.known_tail, crawl.pages, crawl.found,
    crawl.unreadable, crawl.stated_total
FROM list_owner AS list
JOIN list_crawl AS crawl ON crawl.list = list.key AND crawl.ended_at IS NULL
WHERE list.namespace = $1 AND list.id = $2
