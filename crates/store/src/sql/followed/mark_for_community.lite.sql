-- Marks accounts to follow for a community, and returns them.
UPDATE community_account SET follows = 1
WHERE namespace = ?2 AND account IN (SELECT value FROM json_each(?3))
    AND (NOT EXISTS (SELECT 1 FROM visit
        WHERE visit.namespace = ?1 AND visit.account = community_account.account AND visit.left_at IS NULL)
        OR EXISTS (SELECT 1 FROM community_account AS other
            WHERE other.namespace IN (SELECT value FROM json_each(?4)) AND other.account = community_account.account
                AND other.follows = 1))
RETURNING account
