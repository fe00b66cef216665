SELECT count(*) FROM account_handle WHERE namespace = $1 AND reason IS NULL
