-- Each step is looked up separately, as in texts.pg.sql: with joins, PostgreSQL reads all edges, all accounts on lists, and
-- the whole community. OFFSET 0 keeps a list, which has many rows, as a separate step.
SELECT of.account, count(*) FILTER (WHERE known.state = 'member'), count(*) FILTER (WHERE known.state = 'outside')
FROM (SELECT given.value ->> 0 AS account FROM json_array_elements(CAST($2 AS json)) AS given (value)) AS of
CROSS JOIN LATERAL (SELECT key FROM list_owner WHERE namespace = $3 AND id = of.account LIMIT 1) AS list
CROSS JOIN LATERAL (SELECT member FROM list_edge WHERE list_edge.list = list.key AND closed_by IS NULL OFFSET 0)
    AS edge
CROSS JOIN LATERAL (SELECT id FROM list_account WHERE key = edge.member LIMIT 1) AS friend
CROSS JOIN LATERAL (SELECT state FROM community_account WHERE namespace = $1 AND account = friend.id LIMIT 1) AS known
GROUP BY of.account
