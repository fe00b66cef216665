-- Communities: see store/communities.rs.

CREATE TABLE community_account (
    namespace    TEXT COLLATE "C" NOT NULL,
    account      TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL CHECK (state IN ('seen', 'candidate', 'open', 'member', 'outside')),
    first_at     BIGINT NOT NULL,
    admitted_at  BIGINT,
    decided_at   BIGINT NOT NULL,
    appearances  BIGINT NOT NULL DEFAULT 0,
    posts        BIGINT NOT NULL DEFAULT 0,
    judged_posts BIGINT NOT NULL DEFAULT 0,
    judged_at    BIGINT,
    rule         TEXT,
    score        DOUBLE PRECISION,
    evidence     TEXT,
    by_hand      TEXT,
    why          TEXT,
    follows      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, account)
);

COMMENT ON TABLE community_account IS 'An account as a community sees it; its life (due times) is its row in tweet';
COMMENT ON COLUMN community_account.namespace IS 'The pipeline of the community: community:twitter:pt-pt';
COMMENT ON COLUMN community_account.state IS 'seen, candidate, open (judged, and not decided), member or outside';
COMMENT ON COLUMN community_account.first_at IS 'When it was seen first, ms since the epoch';
COMMENT ON COLUMN community_account.admitted_at IS 'When it became a candidate, ms since the epoch';
COMMENT ON COLUMN community_account.decided_at IS 'Since when it is in its state, ms since the epoch';
COMMENT ON COLUMN community_account.appearances IS 'Members, and posts of searches, that led to it';
COMMENT ON COLUMN community_account.posts IS 'Posts of it that were found since it was seen first';
COMMENT ON COLUMN community_account.judged_posts IS 'As many as posts had been when it was last judged';
COMMENT ON COLUMN community_account.judged_at IS 'When it was last judged, ms since the epoch';
COMMENT ON COLUMN community_account.rule IS 'The version of the rule by which it was judged';
COMMENT ON COLUMN community_account.score IS 'From -1 (outside) to 1 (a member)';
COMMENT ON COLUMN community_account.evidence IS 'What each test said: JSON';
COMMENT ON COLUMN community_account.by_hand IS 'The person who decided; NULL: the rule did';
COMMENT ON COLUMN community_account.why IS 'What that person gave as the reason';
COMMENT ON COLUMN community_account.follows IS '1: it is followed for the sake of this community';

CREATE INDEX community_account_by_state ON community_account (namespace, state, appearances);
CREATE INDEX community_account_unjudged ON community_account (namespace, decided_at) WHERE judged_at IS NULL AND state <> 'seen';

CREATE TABLE community_appearance (
    namespace TEXT COLLATE "C" NOT NULL,
    account   TEXT COLLATE "C" NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL CHECK (reason IN ('mentioned', 'reposted', 'follower', 'friend', 'search')),
    post      TEXT,
    first_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, account, source, reason)
);

COMMENT ON TABLE community_appearance IS 'What led to an account: a member that named or follows it, or a post that a search found';
COMMENT ON COLUMN community_appearance.source IS 'The id of the member, or of the post';
COMMENT ON COLUMN community_appearance.post IS 'The id of the post that shows it';
COMMENT ON COLUMN community_appearance.first_at IS 'When it was seen first, ms since the epoch';

CREATE TABLE community_change (
    namespace TEXT COLLATE "C" NOT NULL,
    account   TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    old_state TEXT,
    new_state TEXT COLLATE "C" NOT NULL,
    rule      TEXT,
    by_hand   TEXT,
    PRIMARY KEY (namespace, account, at, new_state)
);

COMMENT ON TABLE community_change IS 'A change of the state of an account in a community';
COMMENT ON COLUMN community_change.at IS 'ms since the epoch';
COMMENT ON COLUMN community_change.old_state IS 'NULL: it was not known';
COMMENT ON COLUMN community_change.rule IS 'The version of the rule; NULL: no rule did it';
COMMENT ON COLUMN community_change.by_hand IS 'The person who decided';

CREATE INDEX community_change_by_time ON community_change (namespace, at);

-- Written beside the row by the database itself, so that no writer can forget it. That an account was seen is no change.
CREATE FUNCTION community_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO community_change VALUES (NEW.namespace, NEW.account, NEW.decided_at,
        CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state,
        CASE WHEN NEW.by_hand IS NULL THEN NEW.rule END, NEW.by_hand)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER community_changes AFTER UPDATE OF state ON community_account FOR EACH ROW
WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION community_changes();

CREATE TRIGGER community_first_changes AFTER INSERT ON community_account FOR EACH ROW
WHEN (NEW.state <> 'seen') EXECUTE FUNCTION community_changes();

CREATE TABLE community_growth (
    namespace  TEXT COLLATE "C" NOT NULL,
    at         BIGINT NOT NULL,
    seen       BIGINT NOT NULL,
    candidates BIGINT NOT NULL,
    open       BIGINT NOT NULL,
    members    BIGINT NOT NULL,
    outside    BIGINT NOT NULL,
    posts      BIGINT NOT NULL,
    edges      BIGINT NOT NULL,
    PRIMARY KEY (namespace, at)
);

COMMENT ON TABLE community_growth IS 'The size of a community at a time';
COMMENT ON COLUMN community_growth.at IS 'ms since the epoch';
COMMENT ON COLUMN community_growth.posts IS 'Stored posts of the network';
COMMENT ON COLUMN community_growth.edges IS 'Follows of the network that were found';

CREATE TABLE post_language (
    namespace  TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    language   TEXT NOT NULL,
    confidence DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (namespace, id)
);

COMMENT ON TABLE post_language IS 'The language of a post, as its text says';
COMMENT ON COLUMN post_language.namespace IS 'The pipeline of the posts: tweet:update';
COMMENT ON COLUMN post_language.language IS 'ISO 639-1';
COMMENT ON COLUMN post_language.confidence IS '0 to 1';

-- What comes out, of those that were candidates at least: their lives have rows in tweet.
CREATE VIEW community AS
SELECT namespace, account AS id, account AS member, state, first_at, admitted_at, decided_at, appearances, posts, judged_at, rule,
       CAST(ROUND(score * 1000) AS BIGINT) AS score_thousandths, evidence, by_hand, why
FROM community_account;

CREATE VIEW community_history AS
SELECT namespace, account AS id, at, old_state, new_state, rule, by_hand FROM community_change;

CREATE VIEW community_reason AS
SELECT namespace, account AS id, source, reason, post, first_at FROM community_appearance;
