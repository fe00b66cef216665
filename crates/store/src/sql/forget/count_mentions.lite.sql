SELECT count(*) FROM tweet WHERE namespace = ?1 AND instr(raw, '"' || ?2 || '"') > 0
