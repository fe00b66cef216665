DELETE FROM list_edge WHERE member = ?1
