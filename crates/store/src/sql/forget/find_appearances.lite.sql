SELECT json_array(namespace, account, source) FROM community_appearance
WHERE namespace IN (SELECT value FROM json_each(?1))
    AND (source = ?2 OR post > 'at://' || ?2 || '/' AND post < 'at://' || ?2 || '0')
