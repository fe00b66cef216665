-- What stands of posts that are removed or blanked, beside their rows: see store/forget.rs. Lists had them by their authors, and
-- communities by what they showed. A search found a post by itself: without it nothing is left of that.

-- A step of its own: with rows locked, an index (0019) and whoever writes these rows would wait for each other.

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
