WITH gone AS (
    DELETE FROM list_account WHERE network = (SELECT key FROM list_network WHERE name = $1) AND id = $2 RETURNING key
),
edges AS (DELETE FROM list_edge WHERE member IN (SELECT key FROM gone) RETURNING 1)
SELECT count(*) FROM edges
