-- Changes sorted by time, the state last among equal times. Limited to the newest changes and the start of each
-- value, since an item may change any number of times. The export has all of them.
SELECT at, field, SUBSTR(old_value, 1, 1000) AS old_value, SUBSTR(new_value, 1, 1000) AS new_value
FROM (SELECT at, field, old_value, new_value FROM tweet_change
    WHERE namespace = $1 AND id = $2 ORDER BY at DESC, field = 'state' DESC, field DESC LIMIT 1000) AS newest
ORDER BY at, field = 'state', field
