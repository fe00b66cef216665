WITH gone AS (
    DELETE FROM list_edge
    WHERE ctid = ANY(ARRAY(SELECT of.ctid FROM list_owner AS list
        JOIN list_edge AS of ON of.list = list.key
        WHERE list.namespace IN ($1, $2) AND list.id = $3 LIMIT $4))
    RETURNING 1
)
SELECT count(*) FROM gone
