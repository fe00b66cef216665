-- `CROSS JOIN` makes SQLite start with the given members.
SELECT json_group_array(json_array(member, first_page, followed_at)) FROM json_each(?2)
CROSS JOIN list_edge ON list = ?1 AND member = value
WHERE closed_by IS NULL
