DELETE FROM account_handle WHERE namespace = ?1 AND handle IN (SELECT value FROM json_each(?2))
