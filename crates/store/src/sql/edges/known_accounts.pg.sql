-- Statements about the ids or members of a page look up each of them separately: the planner cannot join a subquery
-- with a LIMIT in another way. Otherwise it would read all accounts of a network, or all edges of a list, for each
-- page. Without statistics it assumes that both are few, and with them that a page is a large part.
SELECT known.id, known.key::bigint FROM UNNEST($2::text[]) AS given (id)
CROSS JOIN LATERAL (SELECT id, key FROM list_account
    WHERE network = (SELECT key FROM list_network WHERE name = $1) AND id = given.id COLLATE "C" LIMIT 1) AS known
