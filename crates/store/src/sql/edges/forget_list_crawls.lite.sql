DELETE FROM list_crawl WHERE list = ?1
