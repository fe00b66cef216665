INSERT INTO list_edge (list, member, first_page, followed_at)
SELECT ?1, value ->> 0, ?2, value ->> 1 FROM json_each(?3)
