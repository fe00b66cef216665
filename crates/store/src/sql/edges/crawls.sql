SELECT number, kind, started_at, ended_at, ended, pages, found, stated_total, appeared, vanished, withheld FROM crawl
WHERE namespace = $1 AND id = $2 ORDER BY number DESC LIMIT $3
