SELECT count(*) FROM account_handle WHERE namespace = $1 AND handle = ANY($2) AND reason IS NULL
