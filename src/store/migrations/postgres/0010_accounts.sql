-- Accounts: what answers say of them, beside their rows in tweet, which hold their lives (state, due times, misses, object).

CREATE TABLE account (
    namespace    TEXT COLLATE "C" NOT NULL,
    id           TEXT COLLATE "C" NOT NULL,
    checked_at   BIGINT NOT NULL,
    state        TEXT CHECK (state IN ('live', 'protected', 'suspended', 'deactivated', 'deleted', 'unknown')),
    handle       TEXT,
    display_name TEXT,
    description  TEXT,
    location     TEXT,
    url          TEXT,
    picture      TEXT,
    banner       TEXT,
    protected    BOOLEAN,
    verified     BOOLEAN,
    withheld_in  TEXT,
    moved_to     TEXT,
    followers    BIGINT,
    following    BIGINT,
    posts        BIGINT,
    listed       BIGINT,
    likes        BIGINT,
    last_post_at BIGINT,
    active_at    BIGINT,
    forgotten_at BIGINT,
    PRIMARY KEY (namespace, id)
);

COMMENT ON TABLE account IS 'An account as its newest answers state it. Its life (due times, misses, the object as it came) is its row in tweet';
COMMENT ON COLUMN account.namespace IS 'The pipeline, as in the queue: profiles:twitter';
COMMENT ON COLUMN account.checked_at IS 'When the newest answer was given, ms since the epoch';
COMMENT ON COLUMN account.state IS 'live, protected, suspended, deactivated, deleted or unknown (not returned, without a reason); NULL: no answer has told it';
COMMENT ON COLUMN account.withheld_in IS 'Country codes, comma separated; empty: in none';
COMMENT ON COLUMN account.moved_to IS 'The id of the account that its owner moved to (Mastodon)';
COMMENT ON COLUMN account.followers IS 'As of the newest answer that gave it; NULL: never given';
COMMENT ON COLUMN account.last_post_at IS 'When it last posted, as the newest answer says, ms since the epoch';
COMMENT ON COLUMN account.active_at IS 'Newest known sign of life: a post, or a greater number of posts, ms since the epoch';
COMMENT ON COLUMN account.forgotten_at IS 'When its content was removed, ms since the epoch; NULL: it was not, or it came back';

-- For a person who looks for a handle, in any case.
CREATE INDEX account_by_handle ON account (lower(handle)) WHERE handle IS NOT NULL;

CREATE TABLE account_change (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    field     TEXT NOT NULL,
    old_value TEXT NOT NULL,
    new_value TEXT NOT NULL,
    PRIMARY KEY (namespace, id, at, field)
);

COMMENT ON TABLE account_change IS 'Changes of a field of an account, and of its state';
COMMENT ON COLUMN account_change.at IS 'When the answer was given that showed it, ms since the epoch';
COMMENT ON COLUMN account_change.old_value IS 'Empty: there was none';
COMMENT ON COLUMN account_change.new_value IS 'Empty: there is none any more';

CREATE INDEX account_by_former_handle ON account_change (lower(old_value)) WHERE field = 'handle';

CREATE TABLE account_count (
    namespace  TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    checked_at BIGINT NOT NULL,
    followers  BIGINT,
    following  BIGINT,
    posts      BIGINT,
    listed     BIGINT,
    likes      BIGINT,
    PRIMARY KEY (namespace, id, checked_at)
);

COMMENT ON TABLE account_count IS 'Counts of an account at a time when one of them had changed: a row holds from checked_at (ms) to the next row';

CREATE TABLE account_post (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    post      TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (namespace, id, post)
);

COMMENT ON TABLE account_post IS 'Collected posts of an account';
COMMENT ON COLUMN account_post.post IS 'The id of the post';
COMMENT ON COLUMN account_post.at IS 'When it was made, or else found, ms since the epoch';

-- Written beside the row by the database itself, so that no writer can forget it. What one of the two answers does not
-- state has not changed.
CREATE FUNCTION account_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account_change
    SELECT NEW.namespace, NEW.id, NEW.checked_at, field, before, now
    FROM (VALUES
        ('handle', OLD.handle, NEW.handle),
        ('display_name', OLD.display_name, NEW.display_name),
        ('description', OLD.description, NEW.description),
        ('location', OLD.location, NEW.location),
        ('url', OLD.url, NEW.url),
        ('picture', OLD.picture, NEW.picture),
        ('banner', OLD.banner, NEW.banner),
        ('protected', OLD.protected::text, NEW.protected::text),
        ('verified', OLD.verified::text, NEW.verified::text),
        ('withheld_in', OLD.withheld_in, NEW.withheld_in),
        ('moved_to', OLD.moved_to, NEW.moved_to),
        ('state', OLD.state, NEW.state)
    ) AS of (field, before, now)
    WHERE before <> now;
    RETURN NULL;
END
$$;

CREATE TRIGGER account_changes AFTER UPDATE ON account FOR EACH ROW
WHEN (OLD.handle <> NEW.handle OR OLD.display_name <> NEW.display_name OR OLD.description <> NEW.description
    OR OLD.location <> NEW.location OR OLD.url <> NEW.url OR OLD.picture <> NEW.picture OR OLD.banner <> NEW.banner
    OR OLD.protected <> NEW.protected OR OLD.verified <> NEW.verified OR OLD.withheld_in <> NEW.withheld_in
    OR OLD.moved_to <> NEW.moved_to OR OLD.state <> NEW.state)
EXECUTE FUNCTION account_changes();

CREATE FUNCTION account_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account_count
    VALUES (NEW.namespace, NEW.id, NEW.checked_at, NEW.followers, NEW.following, NEW.posts, NEW.listed, NEW.likes);
    RETURN NULL;
END
$$;

CREATE TRIGGER account_counts AFTER UPDATE ON account FOR EACH ROW
WHEN (OLD.followers IS DISTINCT FROM NEW.followers OR OLD.following IS DISTINCT FROM NEW.following
    OR OLD.posts IS DISTINCT FROM NEW.posts OR OLD.listed IS DISTINCT FROM NEW.listed
    OR OLD.likes IS DISTINCT FROM NEW.likes)
EXECUTE FUNCTION account_counts();

CREATE TRIGGER account_first_counts AFTER INSERT ON account FOR EACH ROW
WHEN (COALESCE(NEW.followers, NEW.following, NEW.posts, NEW.listed, NEW.likes) IS NOT NULL)
EXECUTE FUNCTION account_counts();
