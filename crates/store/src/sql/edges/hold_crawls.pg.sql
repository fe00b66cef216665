-- Locks the crawls of an account's own lists, since every page locks its crawl first.
SELECT FROM list_crawl
WHERE ended_at IS NULL AND list IN (SELECT key FROM list_owner WHERE namespace IN ($1, $2) AND id = $3) ORDER BY key
FOR UPDATE
