-- Records appeared accounts as seen. A candidate keeps its number of appearances. It is excluded before its
-- appearances are read, since a popular account has very many. With NOT EXISTS, PostgreSQL would read all accounts.
INSERT INTO community_account (namespace, account, state, first_at, decided_at, appearances)
SELECT $1, of.account, 'seen', $3, $3, count(DISTINCT of.source) FROM community_appearance AS of
WHERE of.namespace = $1
    AND of.account = ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)
        WHERE COALESCE(
            (SELECT known.state FROM community_account AS known
                WHERE known.namespace = $1 AND known.account = given.value ->> 0), 'seen'
        ) = 'seen'))
    AND (NOT EXISTS (SELECT FROM forgotten_person) OR of.account IS NULL
        OR of.account <> ALL((SELECT forgotten_among($4))::text[]))
GROUP BY of.account ORDER BY of.account
ON CONFLICT (namespace, account) DO UPDATE SET appearances = excluded.appearances
WHERE community_account.appearances <> excluded.appearances
