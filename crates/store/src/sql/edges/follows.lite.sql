-- By each account's own edges: no more than the lists that were read, regardless of their length.
SELECT DISTINCT account.id AS member, tweet.id AS owner FROM json_each(?2) AS given
CROSS JOIN list_account AS account ON account.network = (SELECT key FROM list_network WHERE name = ?3)
    AND account.id = given.value
CROSS JOIN list_edge AS of ON of.member = account.key
CROSS JOIN tweet ON tweet.key = of.list
WHERE tweet.namespace = ?1 AND tweet.id IN (SELECT value FROM json_each(?2))
    AND (
        CASE WHEN ?4 IS NULL THEN of.closed_by IS NULL
            ELSE EXISTS (SELECT 1 FROM edge_row AS edge
                WHERE edge.tweet = of.list AND edge.member_key = of.member AND edge.first_page = of.first_page
                    AND COALESCE(edge.followed_at <= ?4, edge.appeared_after < ?4, TRUE)
                    AND (edge.closed_by IS NULL OR COALESCE(edge.vanished_by > ?4, TRUE)))
            END
    )
