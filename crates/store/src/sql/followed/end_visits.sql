-- $1: the namespace, $2: the part, $3: the account, $4: the pipeline of the part.
UPDATE tweet SET state = 'ended', next_due = NULL
WHERE namespace = $4 AND id = $3 AND state IN ('live', 'unavailable')
    AND NOT EXISTS (SELECT 1 FROM visit
        WHERE visit.namespace = $1 AND visit.account = $3 AND visit.part = $2 AND visit.left_at IS NULL)
