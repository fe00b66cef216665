SELECT CAST(crawl.key AS BIGINT) AS key, CAST(crawl.list AS BIGINT) AS list, crawl.kind, crawl.stops_after,
    crawl.started_at, crawl.appeared_after, crawl.cursor, crawl.newest_at, crawl.known_tail, crawl.pages, crawl.found,
    crawl.unreadable, crawl.stated_total, list.id AS owner
FROM list_crawl AS crawl
JOIN list_owner AS list ON list.key = crawl.list
WHERE list.namespace = $1 AND crawl.ended_at IS NULL AND crawl.key > $2 ORDER BY crawl.key LIMIT $3
