SELECT hash FROM forgotten_person WHERE hash IN (SELECT value FROM json_each(?1))
