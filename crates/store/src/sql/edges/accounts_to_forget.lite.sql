-- $1: the network, $2 and $3: the namespaces of its lists, $4: that of its profiles. It repeats the condition of the
-- index of live items word for word. By the index of forgotten accounts: the view of accounts would start with all
-- profiles.
SELECT gone.id
FROM (SELECT id FROM account_row
    CROSS JOIN tweet ON tweet.key = account_row.tweet
    WHERE namespace = $4 AND forgotten_at IS NOT NULL
    UNION
    SELECT id FROM tweet
    WHERE namespace IN ($2, $3) AND state IN ('live', 'unavailable') AND state = 'unavailable' AND misses > 0
        AND lookups > misses AND raw IS NULL) AS gone
WHERE EXISTS (SELECT 1 FROM list_account
    WHERE list_account.id = gone.id AND list_account.network = (SELECT key FROM list_network WHERE name = $1))
    OR EXISTS (SELECT 1 FROM tweet AS list
        JOIN list_crawl ON list_crawl.list = list.key
        WHERE list.namespace IN ($2, $3) AND list.id = gone.id)
LIMIT $5
