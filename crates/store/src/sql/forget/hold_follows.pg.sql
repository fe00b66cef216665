-- Follows and unfollows of these accounts, or of authors of these posts, wait; so does a page of a visit to them.
SELECT account, left_at IS NULL FROM visit
WHERE namespace = $1
    AND account IN (SELECT UNNEST($2::text[]) UNION SELECT author_id FROM tweet WHERE namespace = $3 AND id = ANY($4))
ORDER BY account COLLATE "C" FOR SHARE
