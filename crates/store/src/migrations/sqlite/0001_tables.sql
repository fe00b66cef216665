-- Creates all tables, indexes, views and triggers of the store in an empty SQLite file. The program applies it with
-- `twitter-updater migrate`. The file for PostgreSQL has the same order: posts, history, sources, budget, accounts, handles, visits,
-- media, lists and edges, communities, forgotten people, triggers.
--
-- Times are milliseconds (ms) since the Unix epoch.
--
-- A table NAME_row has an item's data by the key of the item's row in tweet, and the view NAME has its namespace and id instead of the
-- key. Keys follow the order of arrival. So the rows of a batch are close together in the file, whatever their ids are.

-- Posts

-- Current state of each item: a post, an account, a list or a medium. Only twitter-updater writes it.
-- States: live: looked up regularly; unavailable: missing, confirmed; ended: tracking finished; dead: failed for good, kept for a person.
-- Rows contain whole objects (kilobytes), so the table has a rowid: a B-tree of rows this large by another key is deep and slow.
CREATE TABLE tweet (
    key              INTEGER PRIMARY KEY,
    namespace        TEXT    NOT NULL, -- pipeline, as in the queue: tweet:update
    id               TEXT    NOT NULL, -- id under which it is looked up
    state            TEXT    NOT NULL CHECK (state IN ('live', 'unavailable', 'ended', 'dead')),
    created_at       INTEGER,          -- time of creation, ms
    current_id       TEXT,             -- id of its newest known version (after edits), if it differs
    text             TEXT,
    author_id        TEXT,
    author_name      TEXT,
    retweet_count    INTEGER,          -- as of the newest answer that stated it; NULL: no answer did; the same for all counts
    favorite_count   INTEGER,
    reply_count      INTEGER,
    quote_count      INTEGER,
    bookmark_count   INTEGER,
    impression_count INTEGER,
    withheld_in      TEXT,             -- codes of countries in which it is withheld, comma separated (XY: all); NULL: not withheld
    first_seen       INTEGER NOT NULL, -- time of its first record, ms
    checked_at       INTEGER,          -- time of its newest stored answer, ms; NULL: none yet
    changed_at       INTEGER,          -- time of the answer that last changed a count, ms: its newest row in tweet_metrics
    next_due         INTEGER,          -- time of its next lookup, ms; NULL: tracking finished
    lookups          INTEGER NOT NULL, -- number of stored answers, misses included
    misses           INTEGER NOT NULL, -- number of misses in a row
    missing_since    INTEGER,          -- time of the first of these misses, ms
    reason           TEXT,             -- reason, if it is dead
    lang             TEXT,             -- language, as the network states it; NULL here and in the next columns: not stated
    reply_to         TEXT,             -- id of the post that it replies to
    retweet_of       TEXT,             -- id of the reposted post
    quote_of         TEXT,             -- id of the quoted post
    conversation_id  TEXT,             -- id of the first post of the conversation
    reply_settings   TEXT,             -- accounts that may reply, as the network states it (X)
    truncated        INTEGER,          -- 1: the text is cut short
    unreadable       TEXT,             -- error of its newest answer; NULL: the answer was readable
    recent           REAL,             -- recent events, see below
    missing_reason   TEXT,             -- reason for its absence, see below
    reply_to_author  TEXT,             -- id of the account that it replies to
    labels           TEXT,             -- labels of the post and of its author, comma separated
    raw              TEXT,             -- newest object, as the network sent it (JSON); last, because it is long: see below
    UNIQUE (namespace, id)
) STRICT;

-- recent: weighted counts of recent events (of an account: changes per day) as of the newest answer that found it. An adaptive schedule
-- reads them at the next answer. NULL: that answer had no counts, or the schedule uses age alone.
-- missing_reason: not_found, deactivated, deleted, suspended or not_authorized, as the network states it. NULL: the network states none,
-- or the item is not missing.
-- raw: SQLite follows its overflow pages to reach a column behind it, so no column stands there.

-- A save with an unchanged state writes no index of this table: see store/sqlite.rs.

-- Counts by state: they read the index alone, not rows of kilobytes.
CREATE INDEX tweet_by_state ON tweet (namespace, state);

-- Rebuild of the queue: reads live and unavailable items page by page, in the order of ids. No column that an answer changes is in it.
CREATE INDEX tweet_living ON tweet (namespace, id) WHERE state IN ('live', 'unavailable');

-- Dead items, for a person.
CREATE INDEX tweet_dead ON tweet (namespace, id) WHERE state = 'dead';

-- Removal of ended items. An item enters it once in its life.
CREATE INDEX tweet_ended ON tweet (namespace, id) WHERE state = 'ended';

-- Ways by which an item arrived, each with its first time.
CREATE TABLE tweet_way_row (
    tweet     INTEGER NOT NULL, -- key of its row in tweet
    pipeline  TEXT    NOT NULL, -- enqueue, once, http, incoming, poll, stream, fan_out, follow, visit …
    source    TEXT    NOT NULL, -- name of a file, of a source in the settings, of a pipeline …; '': there is only one
    query     TEXT,             -- request of that source: a query or an account
    first_at  INTEGER NOT NULL, -- time of its first arrival by this way, ms
    PRIMARY KEY (tweet, pipeline, source)
) STRICT, WITHOUT ROWID;

CREATE VIEW tweet_way AS
SELECT tweet.namespace, tweet.id, of.pipeline, of.source, of.query, of.first_at
FROM tweet JOIN tweet_way_row AS of ON of.tweet = tweet.key;

-- History

-- Counts over time: a row is valid from checked_at to the next row.
CREATE TABLE tweet_metrics_row (
    tweet            INTEGER NOT NULL, -- key of its row in tweet
    checked_at       INTEGER NOT NULL, -- time of the answer, ms
    retweet_count    INTEGER,
    favorite_count   INTEGER,
    reply_count      INTEGER,
    quote_count      INTEGER,
    bookmark_count   INTEGER,
    impression_count INTEGER,
    PRIMARY KEY (tweet, checked_at)
) STRICT, WITHOUT ROWID;

CREATE VIEW tweet_metrics AS
SELECT tweet.namespace, tweet.id, of.checked_at, of.retweet_count, of.favorite_count, of.reply_count, of.quote_count,
       of.bookmark_count, of.impression_count
FROM tweet JOIN tweet_metrics_row AS of ON of.tweet = tweet.key;

-- Changes of a post, except its counts: text and version (edits), countries that withhold it, accounts that may reply, and
-- unavailability. Old values are here, current ones in tweet.
CREATE TABLE tweet_change_row (
    tweet     INTEGER NOT NULL, -- key of its row in tweet
    at        INTEGER NOT NULL, -- time of the answer that showed the change, ms
    field     TEXT    NOT NULL CHECK (field IN ('text', 'current_id', 'withheld_in', 'reply_settings', 'state')),
    old_value TEXT,
    new_value TEXT,
    PRIMARY KEY (tweet, at, field)
) STRICT, WITHOUT ROWID;

CREATE VIEW tweet_change AS
SELECT tweet.namespace, tweet.id, of.at, of.field, of.old_value, of.new_value
FROM tweet JOIN tweet_change_row AS of ON of.tweet = tweet.key;

-- Sources

-- Read position of each polled source and visited account, and its failures. A position is saved after the posts up to it.
CREATE TABLE source_position (
    namespace     TEXT    NOT NULL,           -- pipeline, as in the queue: source:poll:…
    source        TEXT    NOT NULL,           -- name of the source in the settings, or id of the visited account
    position      TEXT,                       -- JSON: since (all posts up to this id are handed over), latest, open (a round in progress) …
    saved_at      INTEGER,                    -- time at which the last page was read and saved, ms
    brought_at    INTEGER,                    -- time of the last page with an unknown post; before any, of the first attempt; ms
    failing_since INTEGER,                    -- start of the time without a readable page, ms
    failures      INTEGER NOT NULL DEFAULT 0, -- number of failures in a row, while other sources answered
    error         TEXT,                       -- last error
    failed_at     INTEGER,                    -- time of the last error, ms
    notes         TEXT,                       -- notes of the poller about the source: a rhythm, as JSON
    PRIMARY KEY (namespace, source)
) STRICT, WITHOUT ROWID;

-- Posts of a source that its API no longer returned, as ranges of ids.
CREATE TABLE source_gap (
    namespace TEXT    NOT NULL,
    source    TEXT    NOT NULL,
    from_id   TEXT    NOT NULL, -- least id that may be missing
    to_id     TEXT    NOT NULL, -- greatest id that may be missing
    reason    TEXT    NOT NULL,
    noted_at  INTEGER NOT NULL, -- time of its first record, ms
    PRIMARY KEY (namespace, source, from_id, to_id)
) STRICT, WITHOUT ROWID;

-- Budget

-- Corrections of an adaptive schedule's budget, and the counts of its queue at that time: the next day is counted from them.
CREATE TABLE schedule_budget (
    namespace      TEXT    NOT NULL PRIMARY KEY, -- pipeline, as in the queue: tweet:update
    corrected_at   INTEGER NOT NULL,             -- time of the correction, ms
    price          REAL    NOT NULL,             -- factor on the price of a call
    level          REAL    NOT NULL,             -- events of the average item, as a multiple of the model's
    calls          REAL    NOT NULL,             -- demanded calls
    table_calls    REAL    NOT NULL,             -- calls that the age table would have made
    events         REAL    NOT NULL,             -- events that answers showed
    average_events REAL    NOT NULL              -- events that average items would have had
) STRICT, WITHOUT ROWID;

-- Accounts

-- Account, as its newest answers state it. Its state in the queue, due times, misses and raw object are in its row in tweet.
CREATE TABLE account_row (
    tweet        INTEGER PRIMARY KEY, -- key of its row in tweet
    checked_at   INTEGER NOT NULL,    -- time of its newest answer, ms
    state        TEXT CHECK (state IN ('live', 'protected', 'suspended', 'deactivated', 'deleted', 'unknown')),
                                      -- unknown: missing, and the network states no reason; NULL: no answer has stated it
    handle       TEXT,
    display_name TEXT,
    description  TEXT,
    location     TEXT,
    url          TEXT,
    picture      TEXT,
    banner       TEXT,
    protected    INTEGER,             -- 1: its owner approves followers
    verified     INTEGER,             -- 1: the network vouches for it
    withheld_in  TEXT,                -- codes of countries in which it is withheld, comma separated; '': none
    moved_to     TEXT,                -- id of the account that its owner moved to (Mastodon)
    followers    INTEGER,             -- as of the newest answer that stated it; NULL: no answer did; the same for all counts
    following    INTEGER,
    posts        INTEGER,
    listed       INTEGER,
    likes        INTEGER,
    last_post_at INTEGER,             -- time of its last post, as the newest answer states it, ms
    active_at    INTEGER,             -- newest known sign of life: a post, or a greater number of posts, ms
    forgotten_at INTEGER              -- time at which its content was removed, ms; NULL: it was not, or the account came back
) STRICT;

-- Search for a handle, in any case.
CREATE INDEX account_by_handle ON account_row (lower(handle)) WHERE handle IS NOT NULL;

-- Accounts whose edges are removed as well.
CREATE INDEX account_forgotten ON account_row (tweet) WHERE forgotten_at IS NOT NULL;

CREATE VIEW account AS
SELECT tweet.namespace, tweet.id, of.checked_at, of.state, of.handle, of.display_name, of.description, of.location, of.url,
       of.picture, of.banner, of.protected, of.verified, of.withheld_in, of.moved_to, of.followers, of.following, of.posts,
       of.listed, of.likes, of.last_post_at, of.active_at, of.forgotten_at
FROM tweet JOIN account_row AS of ON of.tweet = tweet.key;

-- Changes of a field of an account, and of its state.
CREATE TABLE account_change_row (
    tweet     INTEGER NOT NULL, -- key of its row in tweet
    at        INTEGER NOT NULL, -- time of the answer that showed the change, ms
    field     TEXT    NOT NULL,
    old_value TEXT    NOT NULL, -- '': there was none
    new_value TEXT    NOT NULL, -- '': there is none any more
    PRIMARY KEY (tweet, at, field)
) STRICT, WITHOUT ROWID;

CREATE INDEX account_by_former_handle ON account_change_row (lower(old_value)) WHERE field = 'handle';

CREATE VIEW account_change AS
SELECT tweet.namespace, tweet.id, of.at, of.field, of.old_value, of.new_value
FROM tweet JOIN account_change_row AS of ON of.tweet = tweet.key;

-- Counts of an account over time: a row is valid from checked_at to the next row.
CREATE TABLE account_count_row (
    tweet      INTEGER NOT NULL, -- key of its row in tweet
    checked_at INTEGER NOT NULL, -- time of the answer, ms
    followers  INTEGER,
    following  INTEGER,
    posts      INTEGER,
    listed     INTEGER,
    likes      INTEGER,
    PRIMARY KEY (tweet, checked_at)
) STRICT, WITHOUT ROWID;

CREATE VIEW account_count AS
SELECT tweet.namespace, tweet.id, of.checked_at, of.followers, of.following, of.posts, of.listed, of.likes
FROM tweet JOIN account_count_row AS of ON of.tweet = tweet.key;

-- Collected posts of an account.
CREATE TABLE account_post_row (
    tweet INTEGER NOT NULL, -- key of its row in tweet
    post  TEXT    NOT NULL, -- id of the post
    at    INTEGER NOT NULL, -- time of its creation, or else of its discovery, ms
    PRIMARY KEY (tweet, post)
) STRICT, WITHOUT ROWID;

CREATE VIEW account_post AS
SELECT tweet.namespace, tweet.id, of.post, of.at
FROM tweet JOIN account_post_row AS of ON of.tweet = tweet.key;

-- Handles

-- Handles of accounts that came without an id. A handle waits until a call resolves it. One without an account stays with the reason.
CREATE TABLE account_handle (
    namespace TEXT    NOT NULL,
    handle    TEXT    NOT NULL,           -- in lower case, without @
    at        INTEGER NOT NULL,           -- time of its arrival or its rejection, ms
    until     INTEGER NOT NULL DEFAULT 0, -- end of an updater's claim, ms
    reason    TEXT,                       -- reason why it has no account; NULL: it waits
    PRIMARY KEY (namespace, handle)
) STRICT, WITHOUT ROWID;

CREATE INDEX account_handle_waiting ON account_handle (namespace, at) WHERE reason IS NULL;

-- Visits

-- Followed accounts, whose timelines are visited regularly: see store/followed.rs. Their states and due times are in tweet.
CREATE TABLE visit (
    namespace   TEXT    NOT NULL, -- pipeline without its part: visits:twitter
    account     TEXT    NOT NULL, -- id of the account
    part        INTEGER NOT NULL, -- part of the accounts that it belongs to; each part has its own queue
    followed_at INTEGER NOT NULL, -- start of the follow, ms
    left_at     INTEGER,          -- end of the follow, ms; NULL: it is followed
    PRIMARY KEY (namespace, account)
) STRICT, WITHOUT ROWID;

-- Media

-- Pictures, videos and sounds of posts. Their due times are in tweet.
-- States: waiting; stored; gone: its host does not return it; refused: too large, of another type, or not on the public internet;
-- failed: for too long; removed: no stored post shows it any more.
CREATE TABLE media_row (
    tweet         INTEGER PRIMARY KEY,        -- key of its row in tweet
    url           TEXT    NOT NULL,           -- address of its file
    kind          TEXT    NOT NULL,           -- photo, video, gif, audio or unknown, as the network states it
    state         TEXT    NOT NULL CHECK (state IN ('waiting', 'stored', 'gone', 'refused', 'failed', 'removed')),
    bytes         INTEGER,                    -- size of its file
    type          TEXT,                       -- type of its file, by its first bytes: image/jpeg
    sha256        TEXT,                       -- hash of its file, which is also the file's name
    attempts      INTEGER NOT NULL DEFAULT 0, -- number of failures
    failing_since INTEGER,                    -- time of the first of the failures in a row, ms
    reason        TEXT,                       -- reason why it is not stored
    first_at      INTEGER NOT NULL,           -- time at which a post first named it, ms
    checked_at    INTEGER                     -- time of the last attempt, ms
) STRICT;

CREATE INDEX media_by_hash ON media_row (sha256) WHERE sha256 IS NOT NULL;

CREATE VIEW media AS
SELECT tweet.namespace, tweet.id, of.url, of.kind, of.state, of.bytes, of.type, of.sha256, of.attempts, of.failing_since,
       of.reason, of.first_at, of.checked_at
FROM tweet JOIN media_row AS of ON of.tweet = tweet.key;

-- Posts that show a medium.
CREATE TABLE media_use_row (
    tweet    INTEGER NOT NULL, -- key of the medium's row in tweet
    post     TEXT    NOT NULL, -- id of the post
    first_at INTEGER NOT NULL, -- time of the first sighting, ms
    PRIMARY KEY (tweet, post)
) STRICT, WITHOUT ROWID;

CREATE INDEX media_use_by_post ON media_use_row (post);

CREATE VIEW media_use AS
SELECT tweet.namespace, tweet.id, of.post, of.first_at
FROM tweet JOIN media_use_row AS of ON of.tweet = tweet.key;

-- Files of media, in the folder or the bucket under their hashes. A process records a file before it writes the file. So all processes
-- count its bytes from then on, and a file that belongs to no medium can be found.
CREATE TABLE media_file (
    sha256   TEXT    NOT NULL PRIMARY KEY,
    bytes    INTEGER NOT NULL,
    at       INTEGER NOT NULL, -- time of its last write or reuse, ms
    removing INTEGER           -- start of its removal, ms
) STRICT, WITHOUT ROWID;

-- One row: the total size of all files of media. Triggers keep it up to date.
CREATE TABLE media_room (
    one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    bytes INTEGER NOT NULL -- total size of all files
) STRICT;

INSERT INTO media_room VALUES (1, 0);

-- Lists and edges

-- Follows between accounts, and their times: see store/edges.rs. A list is the followers or the friends of an account, its owner. Its
-- state and due times are in tweet.

-- Networks with lists.
CREATE TABLE list_network (
    key  INTEGER PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE -- twitter, mastodon:social
) STRICT;

-- Numbers of account ids: ids are long, and each edge would contain one three times. A number is never reused: stored pages contain it.
CREATE TABLE list_account (
    key     INTEGER PRIMARY KEY AUTOINCREMENT,
    network INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    UNIQUE (network, id)
) STRICT;

-- Crawls: readings of a list, page by page.
CREATE TABLE list_crawl (
    key            INTEGER PRIMARY KEY AUTOINCREMENT,
    list           INTEGER NOT NULL,           -- key of its row in tweet
    kind           TEXT    NOT NULL CHECK (kind IN ('complete', 'prefix')),
    stops_after    INTEGER,                    -- of a prefix crawl: number of known members in a row that ends it
    started_at     INTEGER NOT NULL,           -- time of its start, ms
    appeared_after INTEGER,                    -- start of the newest complete crawl before it, ms: its new members appeared later
    cursor         TEXT,                       -- cursor of the next page; NULL: the first page
    newest_at      INTEGER NOT NULL,           -- time of its newest page, or else of its start, ms
    known_tail     INTEGER NOT NULL DEFAULT 0, -- number of known members in a row at the end of the pages so far
    pages          INTEGER NOT NULL DEFAULT 0, -- number of its pages
    found          INTEGER NOT NULL DEFAULT 0, -- number of distinct members
    stated_total           INTEGER,                    -- number of members that the owner's profile states
    appeared       INTEGER NOT NULL DEFAULT 0, -- number of new edges
    vanished       INTEGER NOT NULL DEFAULT 0, -- number of edges that it closed
    withheld       INTEGER NOT NULL DEFAULT 0, -- number of edges that it did not show and did not close
    ended          TEXT,                       -- complete, withheld, known_tail, capped, hidden, partial, stale, looped or aborted
    ended_at       INTEGER,                    -- time of its end, ms; NULL: it is under way
    unreadable     INTEGER NOT NULL DEFAULT 0  -- number of unreadable ids on its pages
) STRICT;

CREATE UNIQUE INDEX list_crawl_under_way ON list_crawl (list) WHERE ended_at IS NULL;
CREATE INDEX list_crawl_by_list ON list_crawl (list);
CREATE INDEX list_crawl_by_end ON list_crawl (ended_at) WHERE ended_at IS NOT NULL;

-- Pages of crawls, as proof of the edges.
CREATE TABLE list_page (
    key      INTEGER PRIMARY KEY AUTOINCREMENT,
    list     INTEGER NOT NULL, -- key of its row in tweet
    crawl    INTEGER NOT NULL,
    cursor   TEXT,             -- cursor of the request; NULL: the first page
    asked_at INTEGER NOT NULL, -- time of the request, ms
    at       INTEGER NOT NULL, -- time of the answer, ms
    members  BLOB    NOT NULL  -- sorted numbers of its members: their differences, 7 bits per byte, lowest bits first
) STRICT;

CREATE INDEX list_page_by_crawl ON list_page (crawl);
CREATE INDEX list_page_by_list ON list_page (list);
CREATE INDEX list_page_by_time ON list_page (at);

-- Members of a list, each for an interval of time. The view edge has the times.
CREATE TABLE list_edge (
    list        INTEGER NOT NULL, -- key of its row in tweet
    member      INTEGER NOT NULL, -- key of its account
    first_page  INTEGER NOT NULL, -- first page that showed it
    last_page   INTEGER,          -- of a closed edge: last page that showed it
    closed_by   INTEGER,          -- crawl that closed it, since it did not show it; NULL: the edge is open
    followed_at INTEGER,          -- time of the follow, as the network states it, ms
    PRIMARY KEY (list, member, first_page)
) STRICT, WITHOUT ROWID;

CREATE INDEX list_edge_by_member ON list_edge (member, list);
CREATE INDEX list_edge_by_page ON list_edge (first_page, member);
CREATE INDEX list_edge_by_end ON list_edge (closed_by, member) WHERE closed_by IS NOT NULL;

-- Edges with their times: each appeared in (appeared_after, appeared_by] and vanished in (vanished_after, vanished_by]. Pages prove that
-- it was there up to seen_at.
-- The cause of an end is the state of the member's profile at that time, or the state that it reached within a week (604,800,000 ms)
-- after it: profiles of missing accounts are looked up once a week. The first state of a profile is no change; it is valid from the first
-- miss. "unfollowed" needs an answer after the end that found the account, before any answer that did not. New counts prove such an
-- answer. An unconfirmed miss sets the time of the profile (checked_at), but is no such answer.
CREATE VIEW edge_row AS
SELECT of.list AS tweet, account.id AS member,
       CASE WHEN list.namespace LIKE 'followers:%' THEN 'follower' ELSE 'friend' END AS direction,
       since.appeared_after, first.at AS appeared_by, of.followed_at,
       (SELECT asked_at FROM list_page WHERE key = of.last_page) AS vanished_after,
       (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) AS vanished_by,
       CASE WHEN of.closed_by IS NOT NULL THEN COALESCE(
           (SELECT CASE WHEN new_value IN ('suspended', 'deactivated', 'deleted') THEN new_value END FROM account_change
            WHERE namespace = 'profiles:' || network.name AND id = account.id AND field = 'state'
            AND at <= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) ORDER BY at DESC LIMIT 1),
           (SELECT new_value FROM account_change WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND field = 'state' AND new_value IN ('suspended', 'deactivated', 'deleted')
            AND at > (SELECT ended_at FROM list_crawl WHERE key = of.closed_by)
            AND at <= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) + 604800000 ORDER BY at LIMIT 1),
           (SELECT state FROM account AS profile WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND state IN ('suspended', 'deactivated', 'deleted') AND NOT EXISTS (
                SELECT 1 FROM account_change AS changed
                WHERE changed.namespace = profile.namespace AND changed.id = profile.id AND changed.field = 'state')
            AND COALESCE((SELECT missing_since FROM tweet AS item
                WHERE item.namespace = profile.namespace AND item.id = profile.id), checked_at)
                <= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) + 604800000),
           (SELECT 'unfollowed' FROM account AS profile WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND NOT EXISTS (
                SELECT 1 FROM account_change AS changed
                WHERE changed.namespace = profile.namespace AND changed.id = profile.id AND changed.field = 'state'
                AND changed.new_value = 'unknown' AND changed.at > (SELECT asked_at FROM list_page WHERE key = of.last_page)
                AND changed.at <= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by))
            AND COALESCE(
                (SELECT old_value IN ('live', 'protected') AND (new_value IN ('live', 'protected') OR EXISTS (
                    SELECT 1 FROM account_count AS found
                    WHERE found.namespace = changed.namespace AND found.id = changed.id AND found.checked_at < changed.at
                    AND found.checked_at >= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by)))
                 FROM account_change AS changed
                 WHERE changed.namespace = profile.namespace AND changed.id = profile.id AND changed.field = 'state'
                 AND changed.at > (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) ORDER BY changed.at LIMIT 1),
                checked_at >= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) AND (
                    state = 'protected' OR state = 'live' AND EXISTS (
                    SELECT 1 FROM tweet AS item
                    WHERE item.namespace = profile.namespace AND item.id = profile.id AND item.missing_since IS NULL)))),
           'unknown') END AS cause,
       COALESCE(
           (SELECT asked_at FROM list_page WHERE key = of.last_page),
           (SELECT MAX(first.asked_at, COALESCE(MAX(started_at), 0)) FROM list_crawl
            WHERE list_crawl.list = of.list AND ended = 'complete')) AS seen_at,
       of.member AS member_key, of.first_page, of.closed_by, of.member AS member_number, of.first_page AS page_number
FROM list_edge AS of
JOIN tweet AS list ON list.key = of.list
JOIN list_account AS account ON account.key = of.member
JOIN list_network AS network ON network.key = account.network
JOIN list_page AS first ON first.key = of.first_page
JOIN list_crawl AS since ON since.key = first.crawl;

CREATE VIEW edge AS
SELECT tweet.namespace, tweet.id, of.member, of.direction, of.appeared_after, of.appeared_by, of.followed_at,
       of.vanished_after, of.vanished_by, of.cause, of.seen_at, of.member_key, of.first_page, of.closed_by
FROM tweet JOIN edge_row AS of ON of.tweet = tweet.key;

CREATE VIEW crawl_row AS
SELECT list AS tweet, key AS number, kind, started_at, ended_at, ended, pages, found, stated_total, appeared, vanished, withheld
FROM list_crawl;

CREATE VIEW crawl AS
SELECT tweet.namespace, tweet.id, of.number, of.kind, of.started_at, of.ended_at, of.ended, of.pages, of.found, of.stated_total,
       of.appeared, of.vanished, of.withheld
FROM tweet JOIN crawl_row AS of ON of.tweet = tweet.key;

-- Communities

-- Accounts of a community: see store/communities.rs. A namespace is the pipeline of a community: community:twitter:pt-pt. Their due times
-- are in tweet. States: seen; candidate; open: judged, and not decided; member; outside.
CREATE TABLE community_account (
    namespace    TEXT    NOT NULL,
    account      TEXT    NOT NULL,           -- id of the account
    state        TEXT    NOT NULL CHECK (state IN ('seen', 'candidate', 'open', 'member', 'outside')),
    first_at     INTEGER NOT NULL,           -- time of its first appearance, ms
    admitted_at  INTEGER,                    -- time at which it became a candidate, ms
    decided_at   INTEGER NOT NULL,           -- start of its current state, ms
    appearances  INTEGER NOT NULL DEFAULT 0, -- number of members, and of posts of searches, that led to it
    posts        INTEGER NOT NULL DEFAULT 0, -- number of its posts that were found since its first appearance
    judged_posts INTEGER NOT NULL DEFAULT 0, -- value of posts at its last judgement
    judged_at    INTEGER,                    -- time of its last judgement, ms
    rule         TEXT,                       -- version of the rule that judged it
    score        REAL,                       -- from -1 (outside) to 1 (a member)
    evidence     TEXT,                       -- result of each test, as JSON
    by_hand      TEXT,                       -- person who decided; NULL: the rule decided
    why          TEXT,                       -- reason that this person gave
    follows      INTEGER NOT NULL DEFAULT 0, -- 1: it is followed for this community
    PRIMARY KEY (namespace, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX community_account_by_state ON community_account (namespace, state, appearances);
CREATE INDEX community_account_unjudged ON community_account (namespace, decided_at) WHERE judged_at IS NULL AND state <> 'seen';

-- Appearances of an account: members that named or reposted it, follow it or are followed by it, and posts that a search found.
CREATE TABLE community_appearance (
    namespace TEXT    NOT NULL,
    account   TEXT    NOT NULL,
    source    TEXT    NOT NULL, -- id of the member, or of the post that a search found
    reason    TEXT    NOT NULL CHECK (reason IN ('mentioned', 'reposted', 'follower', 'friend', 'search')),
    post      TEXT,             -- id of the post that shows it; NULL: none does, or it is removed or blanked
    first_at  INTEGER NOT NULL, -- time of the first such appearance, ms
    PRIMARY KEY (namespace, account, source, reason)
) STRICT, WITHOUT ROWID;

-- Appearances of a post that is removed or blanked.
CREATE INDEX community_appearance_by_post ON community_appearance (post) WHERE post IS NOT NULL;

-- Changes of the state of an account in a community.
CREATE TABLE community_change (
    namespace TEXT    NOT NULL,
    account   TEXT    NOT NULL,
    at        INTEGER NOT NULL, -- time of the decision, ms
    old_state TEXT,             -- NULL: it was not known
    new_state TEXT    NOT NULL,
    rule      TEXT,             -- version of the rule; NULL: no rule decided
    by_hand   TEXT,             -- person who decided
    PRIMARY KEY (namespace, account, at, new_state)
) STRICT, WITHOUT ROWID;

CREATE INDEX community_change_by_time ON community_change (namespace, at);

-- Size of a community over time.
CREATE TABLE community_growth (
    namespace  TEXT    NOT NULL,
    at         INTEGER NOT NULL, -- time of the count, ms
    seen       INTEGER NOT NULL,
    candidates INTEGER NOT NULL,
    open       INTEGER NOT NULL,
    members    INTEGER NOT NULL,
    outside    INTEGER NOT NULL,
    posts      INTEGER NOT NULL, -- number of stored posts of the network
    edges      INTEGER NOT NULL, -- number of known follows of the network
    PRIMARY KEY (namespace, at)
) STRICT, WITHOUT ROWID;

-- Language of a post, as its text shows.
CREATE TABLE post_language_row (
    tweet      INTEGER PRIMARY KEY, -- key of its row in tweet
    language   TEXT NOT NULL,       -- ISO 639-1
    confidence REAL NOT NULL        -- 0 to 1
) STRICT;

CREATE VIEW post_language AS
SELECT tweet.namespace, tweet.id, of.language, of.confidence
FROM tweet JOIN post_language_row AS of ON of.tweet = tweet.key;

-- Exported tables of a community. They contain accounts that were candidates at least: only these have rows in tweet.
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

-- Forgotten people

-- Blocked people, of whom nothing is stored any more (forget account): see store/forget.rs. A row has a pseudonym, no id.
CREATE TABLE forgotten_person (
    hash TEXT    NOT NULL PRIMARY KEY, -- HMAC-SHA-256 of the network and the id of the account, in hexadecimal digits
    at   INTEGER NOT NULL              -- time from which the person is blocked, ms
) STRICT, WITHOUT ROWID;

-- Fingerprint of the key of the pseudonyms, which is in a file outside the database (forget.key_file): see store/pseudonyms.rs. One row,
-- from the first forgotten person on.
CREATE TABLE forgotten_key (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    fingerprint TEXT    NOT NULL -- distinguishes the key from others; the key cannot be computed from it
) STRICT;

-- Triggers: they write changes and counts, so no writer can forget one.

-- Before the first answer, a row has the data of its arrival: then only its text and version are compared. Two changes of a text are no
-- edits: a cut text that is complete now, and another text of a repost, which cannot be edited.
CREATE TRIGGER tweet_changes AFTER UPDATE ON tweet
WHEN NEW.checked_at IS DISTINCT FROM OLD.checked_at AND (
    NEW.text <> OLD.text
    OR NEW.current_id IS DISTINCT FROM OLD.current_id
    OR NEW.withheld_in IS DISTINCT FROM OLD.withheld_in
    OR NEW.reply_settings <> OLD.reply_settings
    OR NEW.state <> OLD.state
)
BEGIN
    INSERT INTO tweet_change_row
    SELECT NEW.key, NEW.checked_at, 'text', OLD.text, NEW.text
    WHERE NEW.text <> OLD.text AND OLD.truncated IS NOT TRUE AND NEW.retweet_of IS NULL
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'current_id', OLD.current_id, NEW.current_id
    WHERE NEW.current_id IS DISTINCT FROM OLD.current_id
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'withheld_in', OLD.withheld_in, NEW.withheld_in
    WHERE NEW.withheld_in IS DISTINCT FROM OLD.withheld_in AND OLD.checked_at IS NOT NULL
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'reply_settings', OLD.reply_settings, NEW.reply_settings
    WHERE NEW.reply_settings <> OLD.reply_settings
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'state', OLD.state, NEW.state
    WHERE NEW.state <> OLD.state AND 'unavailable' IN (OLD.state, NEW.state) AND OLD.checked_at IS NOT NULL;
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

-- A field that one of the two answers does not state has not changed. The address in a profile has not changed either if the old or the
-- new one is a short link (t.co): it may lead to the same address.
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
        WHERE OLD.url = '' OR NEW.url = '' OR NOT (OLD.url LIKE 'http%://t.co/%' OR NEW.url LIKE 'http%://t.co/%')
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

-- Handles move from one account to another. If an account takes a handle, posts of its former bearers get the current handle of their
-- author, or none while that is unknown.
CREATE TRIGGER account_takes_handle AFTER UPDATE OF handle ON account_row
WHEN NEW.handle <> '' AND NEW.handle IS NOT OLD.handle
BEGIN
    UPDATE tweet SET author_name = (
        SELECT own.handle FROM tweet AS author JOIN account_row AS own ON own.tweet = author.key
        WHERE author.namespace = (SELECT namespace FROM tweet WHERE key = NEW.tweet) AND author.id = tweet.author_id
        AND own.handle <> '' AND lower(own.handle) <> lower(NEW.handle))
    WHERE namespace = (
        SELECT CASE WHEN namespace = 'profiles:twitter' THEN 'tweet:update'
            WHEN namespace LIKE 'profiles:mastodon:%' THEN 'mastodon:update:' || substr(namespace, 19)
            ELSE substr(namespace, 10) || ':update' END
        FROM tweet WHERE key = NEW.tweet)
    AND id IN (
        SELECT of.post FROM account_post_row AS of WHERE of.tweet IN (
            SELECT tweet FROM account_row WHERE lower(handle) = lower(NEW.handle) AND handle IS NOT NULL
            UNION SELECT tweet FROM account_change_row WHERE field = 'handle' AND lower(old_value) = lower(NEW.handle))
        AND of.tweet <> NEW.tweet
        AND (SELECT namespace FROM tweet WHERE key = of.tweet) = (SELECT namespace FROM tweet WHERE key = NEW.tweet))
    AND author_id <> (SELECT id FROM tweet WHERE key = NEW.tweet) AND lower(author_name) = lower(NEW.handle);
END;

CREATE TRIGGER account_takes_first_handle AFTER INSERT ON account_row
WHEN NEW.handle <> ''
BEGIN
    UPDATE tweet SET author_name = (
        SELECT own.handle FROM tweet AS author JOIN account_row AS own ON own.tweet = author.key
        WHERE author.namespace = (SELECT namespace FROM tweet WHERE key = NEW.tweet) AND author.id = tweet.author_id
        AND own.handle <> '' AND lower(own.handle) <> lower(NEW.handle))
    WHERE namespace = (
        SELECT CASE WHEN namespace = 'profiles:twitter' THEN 'tweet:update'
            WHEN namespace LIKE 'profiles:mastodon:%' THEN 'mastodon:update:' || substr(namespace, 19)
            ELSE substr(namespace, 10) || ':update' END
        FROM tweet WHERE key = NEW.tweet)
    AND id IN (
        SELECT of.post FROM account_post_row AS of WHERE of.tweet IN (
            SELECT tweet FROM account_row WHERE lower(handle) = lower(NEW.handle) AND handle IS NOT NULL
            UNION SELECT tweet FROM account_change_row WHERE field = 'handle' AND lower(old_value) = lower(NEW.handle))
        AND of.tweet <> NEW.tweet
        AND (SELECT namespace FROM tweet WHERE key = of.tweet) = (SELECT namespace FROM tweet WHERE key = NEW.tweet))
    AND author_id <> (SELECT id FROM tweet WHERE key = NEW.tweet) AND lower(author_name) = lower(NEW.handle);
END;

CREATE TRIGGER media_room_more AFTER INSERT ON media_file BEGIN
    UPDATE media_room SET bytes = bytes + NEW.bytes;
END;

CREATE TRIGGER media_room_less AFTER DELETE ON media_file BEGIN
    UPDATE media_room SET bytes = bytes - OLD.bytes;
END;

-- The first sighting of an account is no change.
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
