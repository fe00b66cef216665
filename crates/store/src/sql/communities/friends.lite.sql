-- Joins in the order of the tables, each by its key.
SELECT of.account, count(*) FILTER (WHERE known.state = 'member'), count(*) FILTER (WHERE known.state = 'outside')
FROM (SELECT given.value ->> 0 AS account FROM json_each($2) AS given) AS of
CROSS JOIN tweet AS list
CROSS JOIN list_edge AS edge
CROSS JOIN list_account AS friend
CROSS JOIN community_account AS known
WHERE list.namespace = $3 AND list.id = of.account AND edge.list = list.key AND edge.closed_by IS NULL
    AND friend.key = edge.member AND known.namespace = $1 AND known.account = friend.id
GROUP BY of.account
