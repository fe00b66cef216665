INSERT INTO list_edge (list, member, first_page, followed_at)
SELECT $1, member, $2, followed_at FROM UNNEST($3::bigint[], $4::bigint[]) AS given (member, followed_at)
