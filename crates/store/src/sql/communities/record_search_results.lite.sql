INSERT INTO community_appearance (namespace, account, source, reason, post, first_at)
SELECT DISTINCT $1, given.value ->> 0, given.value ->> 1, 'search', given.value ->> 1, CAST($3 AS BIGINT)
FROM json_each($2) AS given
CROSS JOIN tweet_way AS way
JOIN json_each($5) AS searches ON searches.value ->> 0 = way.source
WHERE way.namespace = $4 AND way.id = given.value ->> 1 AND way.pipeline IN ('poll', 'stream')
ON CONFLICT DO NOTHING
