-- Records appeared accounts as seen. A candidate keeps its number of appearances. It is excluded before its appearances
-- are read, since a popular account has very many.
INSERT INTO community_account (namespace, account, state, first_at, decided_at, appearances)
SELECT $1, of.account, 'seen', $3, $3, count(DISTINCT of.source) FROM community_appearance AS of
WHERE of.namespace = $1
    AND of.account IN (SELECT given.value ->> 0 FROM json_each($2) AS given
        WHERE COALESCE(
            (SELECT known.state FROM community_account AS known
                WHERE known.namespace = $1 AND known.account = given.value ->> 0), 'seen'
        ) = 'seen')
    AND TRUE
GROUP BY of.account ORDER BY of.account
ON CONFLICT (namespace, account) DO UPDATE SET appearances = excluded.appearances
WHERE community_account.appearances <> excluded.appearances
