UPDATE list_crawl
SET
    cursor = $2, newest_at = $3, known_tail = $4, pages = $5, found = $6, appeared = appeared + $7,
    vanished = vanished + $8, withheld = withheld + $9, ended = $10, ended_at = $11, unreadable = unreadable + $12
WHERE key = $1
