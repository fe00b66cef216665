WITH gone AS (DELETE FROM forgotten_person WHERE hash = $1 RETURNING 1) SELECT count(*) FROM gone
