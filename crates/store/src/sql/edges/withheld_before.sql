SELECT CAST(MAX(key) AS BIGINT) FROM list_crawl
WHERE list = $1 AND ended = 'withheld'
    AND key > COALESCE((SELECT MAX(key) FROM list_crawl WHERE list = $1 AND ended = 'complete'), 0)
