-- What stands of posts that are removed or blanked, beside their rows: see store/forget.rs. Lists had them by their authors, and
-- communities by what they showed. A search found a post by itself: without it nothing is left of that.

-- A statement that reads a table for long (a dump) would hold up the index, and it everybody else: given up rather than waited
-- for, so that it can be run again later.
SET LOCAL lock_timeout = '10s';

DELETE FROM account_post AS of
WHERE (starts_with(namespace, 'followers:') OR starts_with(namespace, 'friends:')) AND NOT EXISTS (
    SELECT FROM tweet AS post
    WHERE post.namespace = CASE split_part(of.namespace, ':', 2) WHEN 'twitter' THEN 'tweet:update'
        WHEN 'mastodon' THEN 'mastodon:update:' || split_part(of.namespace, ':', 3)
        ELSE split_part(of.namespace, ':', 2) || ':update' END
    AND post.id = of.post AND post.author_id IS NOT NULL);

DELETE FROM community_appearance AS of
WHERE reason = 'search' AND post IS NOT NULL AND NOT EXISTS (
    SELECT FROM tweet AS post
    WHERE post.namespace = CASE split_part(of.namespace, ':', 2) WHEN 'twitter' THEN 'tweet:update'
        WHEN 'mastodon' THEN 'mastodon:update:' || split_part(of.namespace, ':', 3)
        ELSE split_part(of.namespace, ':', 2) || ':update' END
    AND post.id = of.post AND post.author_id IS NOT NULL);

UPDATE community_appearance AS of SET post = NULL
WHERE reason <> 'search' AND post IS NOT NULL AND NOT EXISTS (
    SELECT FROM tweet AS post
    WHERE post.namespace = CASE split_part(of.namespace, ':', 2) WHEN 'twitter' THEN 'tweet:update'
        WHEN 'mastodon' THEN 'mastodon:update:' || split_part(of.namespace, ':', 3)
        ELSE split_part(of.namespace, ':', 2) || ':update' END
    AND post.id = of.post AND post.author_id IS NOT NULL);

-- Last: whoever writes the table waits for it.
CREATE INDEX community_appearance_by_post ON community_appearance (post COLLATE "C") WHERE post IS NOT NULL;

COMMENT ON COLUMN community_appearance.post IS 'The id of the post that shows it; NULL: none does, or it is removed or blanked';
