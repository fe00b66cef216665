-- Who follows whom, and since when: see store/edges.rs. A list is the followers or the friends of an account, its owner; its
-- row in tweet holds its life.

CREATE TABLE list_network (
    key  INTEGER PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE -- twitter, mastodon:social
) STRICT;

-- Numbers for ids, which are long and stand in each edge three times. A number is never used again: kept pages hold it.
CREATE TABLE list_account (
    key     INTEGER PRIMARY KEY AUTOINCREMENT,
    network INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    UNIQUE (network, id)
) STRICT;

CREATE TABLE list_crawl (
    key            INTEGER PRIMARY KEY AUTOINCREMENT,
    list           INTEGER NOT NULL,           -- the key of its row in tweet
    kind           TEXT    NOT NULL CHECK (kind IN ('complete', 'prefix')),
    stops_after    INTEGER,                    -- of a prefix: known members in a row
    started_at     INTEGER NOT NULL,           -- ms
    appeared_after INTEGER,                    -- the start of the newest complete crawl before: what it shows anew is younger
    cursor         TEXT,                       -- of the next page; NULL: the first one
    newest_at      INTEGER NOT NULL,           -- its newest page, or else its start, ms
    known_tail     INTEGER NOT NULL DEFAULT 0, -- known members in a row at the end of what was read
    pages          INTEGER NOT NULL DEFAULT 0,
    found          INTEGER NOT NULL DEFAULT 0, -- distinct members
    told           INTEGER,                    -- the number of members that the owner's profile told
    appeared       INTEGER NOT NULL DEFAULT 0, -- new edges
    vanished       INTEGER NOT NULL DEFAULT 0, -- edges that it closed
    withheld       INTEGER NOT NULL DEFAULT 0, -- edges that it did not show and did not close
    ended          TEXT,                       -- complete, withheld, known_tail, capped, hidden, partial, stale, looped, aborted
    ended_at       INTEGER                     -- ms; NULL: it is under way
) STRICT;

CREATE UNIQUE INDEX list_crawl_under_way ON list_crawl (list) WHERE ended_at IS NULL;
CREATE INDEX list_crawl_by_list ON list_crawl (list);
CREATE INDEX list_crawl_by_end ON list_crawl (ended_at) WHERE ended_at IS NOT NULL;

-- Pages as proof.
CREATE TABLE list_page (
    key      INTEGER PRIMARY KEY AUTOINCREMENT,
    list     INTEGER NOT NULL,
    crawl    INTEGER NOT NULL,
    cursor   TEXT,             -- it was asked for with; NULL: the first one
    asked_at INTEGER NOT NULL, -- ms
    at       INTEGER NOT NULL, -- when it was answered, ms
    members  BLOB    NOT NULL  -- the sorted numbers of its members: differences, 7 bits a byte, the least first
) STRICT;

CREATE INDEX list_page_by_crawl ON list_page (crawl);
CREATE INDEX list_page_by_list ON list_page (list);
CREATE INDEX list_page_by_time ON list_page (at);

CREATE TABLE list_edge (
    list        INTEGER NOT NULL,
    member      INTEGER NOT NULL, -- the key of its account
    first_page  INTEGER NOT NULL, -- the page that showed it first
    last_page   INTEGER,          -- of a closed one: the last page that showed it
    closed_by   INTEGER,          -- the crawl that did not show it; NULL: it is open
    followed_at INTEGER,          -- as the network tells it, ms
    PRIMARY KEY (list, member, first_page)
) STRICT, WITHOUT ROWID;

CREATE INDEX list_edge_by_member ON list_edge (member, list);
CREATE INDEX list_edge_by_page ON list_edge (first_page, member);
CREATE INDEX list_edge_by_end ON list_edge (closed_by, member) WHERE closed_by IS NOT NULL;

-- A state that a profile shows up to a week (604,800,000 ms) after the end of an edge counts as its cause: profiles of
-- accounts that are away are looked up once a week.
CREATE VIEW edge_row AS
SELECT of.list AS tweet, account.id AS member,
       CASE WHEN list.namespace LIKE 'followers:%' THEN 'follower' ELSE 'friend' END AS direction,
       since.appeared_after, first.at AS appeared_by, of.followed_at,
       (SELECT asked_at FROM list_page WHERE key = of.last_page) AS vanished_after,
       (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) AS vanished_by,
       CASE WHEN of.closed_by IS NOT NULL THEN COALESCE(
           (SELECT new_value FROM account_change WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND field = 'state' AND new_value IN ('suspended', 'deactivated', 'deleted')
            AND at > (SELECT asked_at FROM list_page WHERE key = of.last_page)
            AND at <= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by) + 604800000 ORDER BY at LIMIT 1),
           (SELECT CASE WHEN new_value IN ('suspended', 'deactivated', 'deleted') THEN new_value END FROM account_change
            WHERE namespace = 'profiles:' || network.name AND id = account.id AND field = 'state'
            AND at <= (SELECT asked_at FROM list_page WHERE key = of.last_page) ORDER BY at DESC LIMIT 1),
           (SELECT CASE
                WHEN state IN ('suspended', 'deactivated', 'deleted') AND NOT EXISTS (
                    SELECT 1 FROM account_change AS changed WHERE changed.namespace = profile.namespace
                    AND changed.id = profile.id AND changed.field = 'state') THEN state
                WHEN state <> 'unknown' AND checked_at >= (SELECT ended_at FROM list_crawl WHERE key = of.closed_by)
                THEN 'unfollowed' END
            FROM account AS profile WHERE namespace = 'profiles:' || network.name AND id = account.id),
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
SELECT list AS tweet, key AS number, kind, started_at, ended_at, ended, pages, found, told, appeared, vanished, withheld
FROM list_crawl;

CREATE VIEW crawl AS
SELECT tweet.namespace, tweet.id, of.number, of.kind, of.started_at, of.ended_at, of.ended, of.pages, of.found, of.told,
       of.appeared, of.vanished, of.withheld
FROM tweet JOIN crawl_row AS of ON of.tweet = tweet.key;

-- Those whose edges are to go as well.
CREATE INDEX account_forgotten ON account_row (tweet) WHERE forgotten_at IS NOT NULL;
