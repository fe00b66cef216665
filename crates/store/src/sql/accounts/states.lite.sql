SELECT COALESCE(account.state, 'unknown') AS state, count(*) AS accounts,
    MIN(tweet.checked_at) FILTER (WHERE tweet.state IN ('live', 'unavailable')) AS oldest_answer_at
FROM tweet
LEFT JOIN account_row AS account ON account.tweet = tweet.key
WHERE tweet.namespace = $1 GROUP BY 1 ORDER BY 1
