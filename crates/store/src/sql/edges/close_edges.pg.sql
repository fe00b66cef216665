WITH closed AS (
    UPDATE list_edge SET closed_by = $2, last_page = given.page
    FROM UNNEST($3::bigint[], $4::bigint[]) AS given (member, page)
    WHERE list = $1 AND list_edge.member = given.member AND closed_by IS NULL
    RETURNING 1
)
SELECT count(*) FROM closed
