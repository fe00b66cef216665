DELETE FROM tweet_change_row
WHERE field = 'text'
    AND tweet IN (
        SELECT key FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND raw IS NULL
    )
