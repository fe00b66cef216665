SELECT (SELECT COALESCE((SELECT fingerprint FROM forgotten_key), '') WHERE EXISTS (SELECT 1 FROM forgotten_person)),
    (SELECT json_group_array(json_array(id, json_array(state, checked_at, key))) FROM tweet
        WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state <> 'dead')
