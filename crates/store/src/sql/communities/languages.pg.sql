INSERT INTO post_language (namespace, id, language, confidence)
SELECT tweet.namespace, tweet.id, given.value ->> 1, CAST(given.value ->> 2 AS DOUBLE PRECISION)
FROM json_array_elements(CAST($2 AS json)) AS given (value)
CROSS JOIN tweet
WHERE tweet.namespace = $1 AND tweet.id = given.value ->> 0
ON CONFLICT DO NOTHING
