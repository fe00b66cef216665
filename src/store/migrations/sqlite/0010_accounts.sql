-- Accounts: what answers say of them, beside their rows in tweet, which hold their lives (state, due times, misses, object).

CREATE TABLE account_row (
    tweet        INTEGER PRIMARY KEY, -- the key of its row in tweet
    checked_at   INTEGER NOT NULL,    -- when the newest answer was given, ms
    state        TEXT CHECK (state IN ('live', 'protected', 'suspended', 'deactivated', 'deleted', 'unknown')),
                                      -- NULL: no answer has told it
    handle       TEXT,
    display_name TEXT,
    description  TEXT,
    location     TEXT,
    url          TEXT,
    picture      TEXT,
    banner       TEXT,
    protected    INTEGER,             -- 1: its owner approves followers
    verified     INTEGER,             -- 1: the network vouches for it
    withheld_in  TEXT,                -- country codes, comma separated
    moved_to     TEXT,                -- the id of the account that its owner moved to (Mastodon)
    followers    INTEGER,             -- as of the newest answer that gave it; NULL: never given
    following    INTEGER,
    posts        INTEGER,
    listed       INTEGER,
    likes        INTEGER,
    last_post_at INTEGER,             -- when it last posted, as the newest answer says, ms
    active_at    INTEGER,             -- newest known sign of life: a post, or a greater number of posts, ms
    forgotten_at INTEGER              -- when its content was removed, ms; NULL: it was not, or it came back
) STRICT;

-- For a person who looks for a handle, in any case.
CREATE INDEX account_by_handle ON account_row (lower(handle)) WHERE handle IS NOT NULL;

-- Changes of a field, and of the state.
CREATE TABLE account_change_row (
    tweet     INTEGER NOT NULL,
    at        INTEGER NOT NULL, -- when the answer was given that showed it, ms
    field     TEXT    NOT NULL,
    old_value TEXT    NOT NULL, -- '': there was none
    new_value TEXT    NOT NULL, -- '': there is none any more
    PRIMARY KEY (tweet, at, field)
) STRICT, WITHOUT ROWID;

CREATE INDEX account_by_former_handle ON account_change_row (lower(old_value)) WHERE field = 'handle';

-- Counts at a time when one of them had changed: a row holds from checked_at (ms) to the next row.
CREATE TABLE account_count_row (
    tweet      INTEGER NOT NULL,
    checked_at INTEGER NOT NULL,
    followers  INTEGER,
    following  INTEGER,
    posts      INTEGER,
    listed     INTEGER,
    likes      INTEGER,
    PRIMARY KEY (tweet, checked_at)
) STRICT, WITHOUT ROWID;

-- Collected posts of an account.
CREATE TABLE account_post_row (
    tweet INTEGER NOT NULL,
    post  TEXT    NOT NULL, -- the id of the post
    at    INTEGER NOT NULL, -- when it was made, or else found, ms
    PRIMARY KEY (tweet, post)
) STRICT, WITHOUT ROWID;

CREATE VIEW account AS
SELECT tweet.namespace, tweet.id, of.checked_at, of.state, of.handle, of.display_name, of.description, of.location, of.url,
       of.picture, of.banner, of.protected, of.verified, of.withheld_in, of.moved_to, of.followers, of.following, of.posts,
       of.listed, of.likes, of.last_post_at, of.active_at, of.forgotten_at
FROM tweet JOIN account_row AS of ON of.tweet = tweet.key;

CREATE VIEW account_change AS
SELECT tweet.namespace, tweet.id, of.at, of.field, of.old_value, of.new_value
FROM tweet JOIN account_change_row AS of ON of.tweet = tweet.key;

CREATE VIEW account_count AS
SELECT tweet.namespace, tweet.id, of.checked_at, of.followers, of.following, of.posts, of.listed, of.likes
FROM tweet JOIN account_count_row AS of ON of.tweet = tweet.key;

CREATE VIEW account_post AS
SELECT tweet.namespace, tweet.id, of.post, of.at
FROM tweet JOIN account_post_row AS of ON of.tweet = tweet.key;

-- Written beside the row by the database itself, so that no writer can forget it. What one of the two answers does not
-- state has not changed.
CREATE TRIGGER account_changes AFTER UPDATE ON account_row
WHEN OLD.handle <> NEW.handle OR OLD.display_name <> NEW.display_name OR OLD.description <> NEW.description
    OR OLD.location <> NEW.location OR OLD.url <> NEW.url OR OLD.picture <> NEW.picture OR OLD.banner <> NEW.banner
    OR OLD.protected <> NEW.protected OR OLD.verified <> NEW.verified OR OLD.withheld_in <> NEW.withheld_in
    OR OLD.moved_to <> NEW.moved_to OR OLD.state <> NEW.state
BEGIN
    INSERT INTO account_change_row
    SELECT NEW.tweet, NEW.checked_at, field, before, now FROM (
        SELECT 'handle' AS field, OLD.handle AS before, NEW.handle AS now
        UNION ALL SELECT 'display_name', OLD.display_name, NEW.display_name
        UNION ALL SELECT 'description', OLD.description, NEW.description
        UNION ALL SELECT 'location', OLD.location, NEW.location
        UNION ALL SELECT 'url', OLD.url, NEW.url
        UNION ALL SELECT 'picture', OLD.picture, NEW.picture
        UNION ALL SELECT 'banner', OLD.banner, NEW.banner
        UNION ALL SELECT 'protected', iif(OLD.protected, 'true', 'false'), iif(NEW.protected, 'true', 'false')
        WHERE OLD.protected <> NEW.protected
        UNION ALL SELECT 'verified', iif(OLD.verified, 'true', 'false'), iif(NEW.verified, 'true', 'false')
        WHERE OLD.verified <> NEW.verified
        UNION ALL SELECT 'withheld_in', OLD.withheld_in, NEW.withheld_in
        UNION ALL SELECT 'moved_to', OLD.moved_to, NEW.moved_to
        UNION ALL SELECT 'state', OLD.state, NEW.state
    ) WHERE before <> now;
END;

CREATE TRIGGER account_counts AFTER UPDATE ON account_row
WHEN OLD.followers IS NOT NEW.followers OR OLD.following IS NOT NEW.following OR OLD.posts IS NOT NEW.posts
    OR OLD.listed IS NOT NEW.listed OR OLD.likes IS NOT NEW.likes
BEGIN
    INSERT INTO account_count_row
    VALUES (NEW.tweet, NEW.checked_at, NEW.followers, NEW.following, NEW.posts, NEW.listed, NEW.likes);
END;

CREATE TRIGGER account_first_counts AFTER INSERT ON account_row
WHEN COALESCE(NEW.followers, NEW.following, NEW.posts, NEW.listed, NEW.likes) IS NOT NULL
BEGIN
    INSERT INTO account_count_row
    VALUES (NEW.tweet, NEW.checked_at, NEW.followers, NEW.following, NEW.posts, NEW.listed, NEW.likes);
END;
