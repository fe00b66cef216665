SELECT CAST(MIN(key) AS BIGINT) FROM list_page WHERE crawl = $1
