INSERT INTO post_language_row (tweet, language, confidence)
SELECT tweet.key, given.value ->> 1, CAST(given.value ->> 2 AS DOUBLE PRECISION) FROM json_each($2) AS given
CROSS JOIN tweet
WHERE tweet.namespace = $1 AND tweet.id = given.value ->> 0
ON CONFLICT DO NOTHING
