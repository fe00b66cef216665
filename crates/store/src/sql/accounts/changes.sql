SELECT at, field, SUBSTR(old_value, 1, 1000) AS old_value, SUBSTR(new_value, 1, 1000) AS new_value
FROM (SELECT at, field, old_value, new_value FROM account_change
    WHERE namespace = $1 AND id = $2 ORDER BY at DESC, field DESC LIMIT 1000) AS newest
ORDER BY at, field
