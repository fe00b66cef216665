INSERT INTO list_page (list, crawl, cursor, asked_at, at, members) VALUES ($1, $2, $3, $4, $5, $6)
RETURNING CAST(key AS BIGINT)
