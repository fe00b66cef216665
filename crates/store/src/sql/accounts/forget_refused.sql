DELETE FROM account_handle WHERE namespace = $1 AND reason IS NOT NULL AND at < $2
