SELECT CAST(key AS BIGINT), members FROM list_page WHERE crawl = $1 AND key < $2 ORDER BY key DESC LIMIT $3
