-- Appearances in posts (?2) of communities with this name prefix (?1). An appearance by a search leads from the post
-- itself and is removed. In others the member that showed the account stays, without the post.
DELETE FROM community_appearance
WHERE post IN (SELECT value FROM json_each(?2)) AND reason = 'search' AND substr(namespace, 1, length(?1)) = ?1
