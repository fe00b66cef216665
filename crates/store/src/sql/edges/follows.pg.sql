-- By each account's own edges: no more than the lists that were read, regardless of their length.
SELECT DISTINCT account.id AS member, list.id AS owner FROM list_account AS account
JOIN list_edge AS of ON of.member = account.key
JOIN list_owner AS list ON list.key = of.list
WHERE account.network = (SELECT key FROM list_network WHERE name = $3) AND account.id = ANY($2)
    AND list.namespace = $1 AND list.id = ANY($2)
    AND CASE WHEN $4::bigint IS NULL THEN of.closed_by IS NULL
        ELSE EXISTS (SELECT 1 FROM edge
            WHERE edge.list = of.list AND edge.member_key = of.member AND edge.first_page = of.first_page
                AND COALESCE(edge.followed_at <= $4, edge.appeared_after < $4, TRUE)
                AND (edge.closed_by IS NULL OR COALESCE(edge.vanished_by > $4, TRUE)))
        END
