-- Communities: see store/communities.rs. A namespace is the pipeline of a community: community:twitter:pt-pt.

-- An account as a community sees it. Its life (due times) is its row in tweet.
CREATE TABLE community_account (
    namespace    TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('seen', 'candidate', 'open', 'member', 'outside')),
    first_at     INTEGER NOT NULL,           -- when it was seen first, ms
    admitted_at  INTEGER,                    -- when it became a candidate, ms
    decided_at   INTEGER NOT NULL,           -- since when it is in its state, ms
    appearances  INTEGER NOT NULL DEFAULT 0, -- members, and posts of searches, that led to it
    posts        INTEGER NOT NULL DEFAULT 0, -- posts of it that were found since it was seen first
    judged_posts INTEGER NOT NULL DEFAULT 0, -- as many as posts had been when it was last judged
    judged_at    INTEGER,                    -- ms
    rule         TEXT,                       -- by which version of the rule it was judged
    score        REAL,                       -- -1 (outside) to 1 (a member)
    evidence     TEXT,                       -- what each test said: JSON
    by_hand      TEXT,                       -- the person who decided; NULL: the rule did
    why          TEXT,                       -- what that person gave as the reason
    follows      INTEGER NOT NULL DEFAULT 0, -- 1: it is followed for this community's sake
    PRIMARY KEY (namespace, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX community_account_by_state ON community_account (namespace, state, appearances);
CREATE INDEX community_account_unjudged ON community_account (namespace, decided_at) WHERE judged_at IS NULL AND state <> 'seen';

-- What led to an account: a member that named or follows it, or a post that a search found.
CREATE TABLE community_appearance (
    namespace TEXT    NOT NULL,
    account   TEXT    NOT NULL,
    source    TEXT    NOT NULL, -- the id of the member, or of the post
    reason    TEXT    NOT NULL CHECK (reason IN ('mentioned', 'reposted', 'follower', 'friend', 'search')),
    post      TEXT,             -- the id of the post that shows it
    first_at  INTEGER NOT NULL, -- ms
    PRIMARY KEY (namespace, account, source, reason)
) STRICT, WITHOUT ROWID;

-- The changes of states.
CREATE TABLE community_change (
    namespace TEXT    NOT NULL,
    account   TEXT    NOT NULL,
    at        INTEGER NOT NULL, -- ms
    old_state TEXT,             -- NULL: it was not known
    new_state TEXT    NOT NULL,
    rule      TEXT,             -- the version of the rule; NULL: no rule did it
    by_hand   TEXT,             -- the person who decided
    PRIMARY KEY (namespace, account, at, new_state)
) STRICT, WITHOUT ROWID;

CREATE INDEX community_change_by_time ON community_change (namespace, at);

-- Written beside the row by the database itself, so that no writer can forget it. That an account was seen is no change.
CREATE TRIGGER community_changes AFTER UPDATE OF state ON community_account WHEN OLD.state <> NEW.state
BEGIN
    INSERT INTO community_change VALUES (NEW.namespace, NEW.account, NEW.decided_at, OLD.state, NEW.state,
        CASE WHEN NEW.by_hand IS NULL THEN NEW.rule END, NEW.by_hand)
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER community_first_changes AFTER INSERT ON community_account WHEN NEW.state <> 'seen'
BEGIN
    INSERT INTO community_change VALUES (NEW.namespace, NEW.account, NEW.decided_at, NULL, NEW.state,
        CASE WHEN NEW.by_hand IS NULL THEN NEW.rule END, NEW.by_hand)
    ON CONFLICT DO NOTHING;
END;

-- The size of a community at a time.
CREATE TABLE community_growth (
    namespace  TEXT    NOT NULL,
    at         INTEGER NOT NULL, -- ms
    seen       INTEGER NOT NULL,
    candidates INTEGER NOT NULL,
    open       INTEGER NOT NULL,
    members    INTEGER NOT NULL,
    outside    INTEGER NOT NULL,
    posts      INTEGER NOT NULL, -- of the network, stored
    edges      INTEGER NOT NULL, -- of the network, found
    PRIMARY KEY (namespace, at)
) STRICT, WITHOUT ROWID;

-- The language of a post, as its text says.
CREATE TABLE post_language_row (
    tweet      INTEGER PRIMARY KEY, -- the key of its row in tweet
    language   TEXT NOT NULL,       -- ISO 639-1
    confidence REAL NOT NULL        -- 0 to 1
) STRICT;

CREATE VIEW post_language AS
SELECT tweet.namespace, tweet.id, of.language, of.confidence
FROM tweet JOIN post_language_row AS of ON of.tweet = tweet.key;

-- What comes out, of those that were candidates at least: their lives have rows in tweet.
CREATE VIEW community_row AS
SELECT tweet.key AS tweet, of.account AS member, of.state, of.first_at, of.admitted_at, of.decided_at, of.appearances, of.posts,
       of.judged_at, of.rule, CAST(ROUND(of.score * 1000) AS INTEGER) AS score_thousandths, of.evidence, of.by_hand, of.why
FROM community_account AS of JOIN tweet ON tweet.namespace = of.namespace AND tweet.id = of.account;

CREATE VIEW community_history_row AS
SELECT tweet.key AS tweet, of.at, of.old_state, of.new_state, of.rule, of.by_hand
FROM community_change AS of JOIN tweet ON tweet.namespace = of.namespace AND tweet.id = of.account;

CREATE VIEW community_reason_row AS
SELECT tweet.key AS tweet, of.source, of.reason, of.post, of.first_at
FROM community_appearance AS of JOIN tweet ON tweet.namespace = of.namespace AND tweet.id = of.account;
