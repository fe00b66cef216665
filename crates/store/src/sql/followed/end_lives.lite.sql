UPDATE tweet SET state = 'ended', next_due = NULL
WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state IN ('live', 'unavailable')
