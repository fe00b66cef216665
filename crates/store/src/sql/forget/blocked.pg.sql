SELECT hash FROM forgotten_person WHERE hash = ANY($1)
