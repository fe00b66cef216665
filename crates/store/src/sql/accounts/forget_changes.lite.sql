-- Changes, except of states, of accounts whose content was just removed.
DELETE FROM account_change_row
WHERE field <> 'state'
    AND tweet IN (SELECT tweet.key FROM tweet
        JOIN account_row ON account_row.tweet = tweet.key
        WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND forgotten_at IS NOT NULL)
