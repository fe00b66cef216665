WITH list AS MATERIALIZED (SELECT key FROM list_owner WHERE namespace = $1 AND id = $2),
pages AS (DELETE FROM list_page WHERE list IN (SELECT key FROM list)),
crawls AS (DELETE FROM list_crawl WHERE list IN (SELECT key FROM list)),
edges AS (DELETE FROM list_edge WHERE list IN (SELECT key FROM list) RETURNING 1)
SELECT count(*) FROM edges
