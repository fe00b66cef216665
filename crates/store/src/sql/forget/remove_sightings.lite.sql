DELETE FROM account_post_row
WHERE post > 'at://' || ?2 || '/' AND post < 'at://' || ?2 || '0' AND tweet IN (SELECT value ->> 0 FROM json_each(?1))
