-- An upsert, which always starts with the given members; for an UPDATE the planner may choose another order.
INSERT INTO list_edge (list, member, first_page, last_page, closed_by)
SELECT of.list, of.member, of.first_page, value ->> 1, ?2 FROM json_each(?3)
CROSS JOIN list_edge AS of ON of.list = ?1 AND of.member = value ->> 0
WHERE of.closed_by IS NULL
ON CONFLICT (list, member, first_page) DO UPDATE SET last_page = excluded.last_page, closed_by = excluded.closed_by
