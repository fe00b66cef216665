-- The communities of the network are found by jumps over the key.
UPDATE community_account SET evidence = NULL
WHERE namespace IN (
    WITH RECURSIVE known (namespace) AS (SELECT MIN(namespace) FROM community_account
        WHERE namespace >= ?3
        UNION ALL
        SELECT (SELECT MIN(namespace) FROM community_account WHERE namespace > known.namespace) FROM known
        WHERE substr(known.namespace, 1, length(?3)) = ?3)
    SELECT namespace FROM known WHERE substr(namespace, 1, length(?3)) = ?3
)
    AND account IN (SELECT tweet.id FROM tweet
        JOIN account_row ON account_row.tweet = tweet.key
        WHERE tweet.namespace = ?1 AND tweet.id IN (SELECT value FROM json_each(?2)) AND forgotten_at IS NOT NULL)
