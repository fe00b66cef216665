DELETE FROM list_page WHERE list = ?1
