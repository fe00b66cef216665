UPDATE account_handle SET until = $3
WHERE namespace = $1
    AND handle IN (SELECT handle FROM account_handle
        WHERE namespace = $1 AND reason IS NULL AND until <= $2 ORDER BY at, handle LIMIT $4 FOR UPDATE SKIP LOCKED)
RETURNING handle
