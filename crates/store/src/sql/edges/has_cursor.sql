SELECT EXISTS (SELECT 1 FROM list_page WHERE crawl = $1 AND cursor = $2)
