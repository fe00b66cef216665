DELETE FROM list_edge WHERE list = ?1
