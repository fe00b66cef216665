SELECT at, reason FROM account_handle WHERE namespace = $1 AND handle = $2
