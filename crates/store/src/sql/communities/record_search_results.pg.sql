INSERT INTO community_appearance (namespace, account, source, reason, post, first_at)
SELECT DISTINCT $1, given.value ->> 0, given.value ->> 1, 'search', given.value ->> 1, CAST($3 AS BIGINT)
FROM json_array_elements(CAST($2 AS json)) AS given (value)
CROSS JOIN tweet_way AS way
JOIN json_array_elements(CAST($5 AS json)) AS searches (value) ON searches.value ->> 0 = way.source
WHERE way.namespace = $4 AND way.id = given.value ->> 1 AND way.pipeline IN ('poll', 'stream')
    AND (NOT EXISTS (SELECT FROM forgotten_person) OR given.value ->> 0 IS NULL
        OR given.value ->> 0 <> ALL((SELECT forgotten_among($6))::text[]))
ON CONFLICT DO NOTHING
