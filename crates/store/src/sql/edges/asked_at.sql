SELECT MAX(asked_at) FROM list_page WHERE key = $1
