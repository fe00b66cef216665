-- What an answer does to the row of an account: one rule, the same text on PostgreSQL and SQLite, which put the ON CONFLICT
-- before it. `account` is the row, `excluded` the answer. A found account states its handle; of one that is not returned only
-- the state is given, once the miss is confirmed, and a handle that is stated all the same; `forgotten_at` says that its content goes. The state stands before this text
-- (`state_after!`).
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
