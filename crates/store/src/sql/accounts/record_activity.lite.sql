WITH given AS MATERIALIZED (SELECT tweet.key, MAX(given.at) AS at
    FROM (SELECT value ->> 0 AS id, MAX(value ->> 2) AS at FROM json_each(?2) GROUP BY 1) AS given
    CROSS JOIN tweet
    WHERE tweet.namespace = ?1 AND tweet.id = given.id GROUP BY tweet.key)
UPDATE account_row SET active_at = given.at FROM given
WHERE account_row.tweet = given.key AND (active_at IS NULL OR active_at < given.at)
