-- Answers that the previous save accepted: their rows in `tweet` have that time. `account` is the row, `excluded` the
-- answer. A found account states its handle; of one that is not returned only the state is given, once the miss is
-- confirmed, and a handle that is stated all the same. `forgotten_at` says that its content is removed.
WITH given AS MATERIALIZED (SELECT value FROM json_each(?2))
INSERT INTO account_row AS account (
    tweet, checked_at, state, handle, display_name, description, location, url, picture, banner, protected, verified,
    withheld_in, moved_to, followers, following, posts, listed, likes, last_post_at, active_at, forgotten_at
)
SELECT tweet.key, value ->> 'at', value ->> 'state', value ->> 'handle', value ->> 'display_name',
    value ->> 'description', value ->> 'location', value ->> 'url', value ->> 'picture', value ->> 'banner',
    value ->> 'protected', value ->> 'verified', value ->> 'withheld_in', value ->> 'moved_to', value ->> 'followers',
    value ->> 'following', value ->> 'posts', value ->> 'listed', value ->> 'likes', value ->> 'last_post_at',
    value ->> 'last_post_at', value ->> 'forgotten_at'
FROM given
JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 'id'
WHERE tweet.checked_at = value ->> 'at' AND tweet.state <> 'dead'
ON CONFLICT (tweet) DO UPDATE SET
    -- The 30 days (2,592,000,000 ms) of a missing account start when the network first states its absence. So an account
    -- that was suspended or missing for another reason is first deactivated, however old its first miss is. Bluesky states
    -- deactivations explicitly.
    state        = CASE
        WHEN excluded.state = 'deleted' AND ?1 <> 'profiles:bluesky'
            AND (account.state IN ('suspended', 'protected', 'unknown')
                OR EXISTS (SELECT 1 FROM account_change_row AS changed
                WHERE changed.tweet = account.tweet
                    AND changed.field = 'state' AND changed.new_value = 'deactivated'
                    AND changed.old_value IN ('suspended', 'protected', 'unknown')
                    AND changed.at > excluded.checked_at - 2592000000))
        THEN 'deactivated'
        ELSE COALESCE(excluded.state, account.state) END,
    checked_at   = excluded.checked_at,
    handle       = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.handle, account.handle) END,
    display_name = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.display_name, account.display_name) END,
    description  = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.description, account.description) END,
    location     = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.location, account.location) END,
    url          = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.url, account.url) END,
    picture      = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.picture, account.picture) END,
    banner       = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.banner, account.banner) END,
    protected    = COALESCE(excluded.protected, account.protected),
    verified     = COALESCE(excluded.verified, account.verified),
    withheld_in  = COALESCE(excluded.withheld_in, account.withheld_in),
    moved_to     = COALESCE(excluded.moved_to, account.moved_to),
    followers    = COALESCE(excluded.followers, account.followers),
    following    = COALESCE(excluded.following, account.following),
    posts        = COALESCE(excluded.posts, account.posts),
    listed       = COALESCE(excluded.listed, account.listed),
    likes        = COALESCE(excluded.likes, account.likes),
    last_post_at = COALESCE(excluded.last_post_at, account.last_post_at),
    -- A network that does not tell the last post tells the number of posts.
    active_at    = CASE WHEN excluded.active_at IS NULL AND excluded.posts > account.posts THEN excluded.checked_at
                        WHEN excluded.active_at > account.active_at OR account.active_at IS NULL THEN excluded.active_at
                        ELSE account.active_at END,
    forgotten_at = CASE WHEN excluded.forgotten_at IS NOT NULL THEN COALESCE(account.forgotten_at, excluded.forgotten_at)
                        WHEN excluded.handle IS NOT NULL THEN NULL
                        ELSE account.forgotten_at END
-- The same answer again (equal times) changes nothing, and neither does an older one.
WHERE account.checked_at < excluded.checked_at
