DELETE FROM forgotten_person WHERE hash = ?1
