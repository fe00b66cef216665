DELETE FROM community_appearance
WHERE (source = ?2 OR post > 'at://' || ?2 || '/' AND post < 'at://' || ?2 || '0')
    AND (namespace, account, source) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1))
