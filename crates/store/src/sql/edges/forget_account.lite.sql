DELETE FROM list_account WHERE key = ?1
