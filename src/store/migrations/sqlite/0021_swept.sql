-- What stands of posts that are removed or blanked, beside their rows: see store/forget.rs. Lists had them by their authors, and
-- communities by what they showed. A search found a post by itself: without it nothing is left of that.

DELETE FROM account_post_row WHERE (tweet, post) IN (
    SELECT of.tweet, of.post
    FROM (SELECT key, substr(namespace, instr(namespace, ':') + 1) AS network FROM tweet
          WHERE namespace > 'followers:' AND namespace < 'followers;' OR namespace > 'friends:' AND namespace < 'friends;') AS owner
    CROSS JOIN account_post_row AS of ON of.tweet = owner.key
    WHERE NOT EXISTS (
        SELECT 1 FROM tweet AS post
        WHERE post.namespace = CASE WHEN network = 'twitter' THEN 'tweet:update'
            WHEN network LIKE 'mastodon:%' THEN 'mastodon:update:' || substr(network, 10) ELSE network || ':update' END
        AND post.id = of.post AND post.author_id IS NOT NULL));

CREATE TEMP TABLE appeared_in AS
SELECT namespace, account, source, reason
FROM (SELECT *, substr(rtrim(rtrim(namespace, replace(namespace, ':', '')), ':'), 11) AS network
      FROM community_appearance WHERE post IS NOT NULL) AS of
WHERE NOT EXISTS (
    SELECT 1 FROM tweet AS post
    WHERE post.namespace = CASE WHEN network = 'twitter' THEN 'tweet:update'
        WHEN network LIKE 'mastodon:%' THEN 'mastodon:update:' || substr(network, 10) ELSE network || ':update' END
    AND post.id = of.post AND post.author_id IS NOT NULL);

DELETE FROM community_appearance WHERE reason = 'search' AND (namespace, account, source, reason) IN (SELECT * FROM appeared_in);
UPDATE community_appearance SET post = NULL WHERE (namespace, account, source, reason) IN (SELECT * FROM appeared_in);
DROP TABLE appeared_in;
