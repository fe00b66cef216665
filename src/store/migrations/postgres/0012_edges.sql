-- Who follows whom, and since when: see store/edges.rs. A list is the followers or the friends of an account, its owner; its
-- row in tweet holds its life.

CREATE TABLE list_network (
    key  SMALLINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE
);

COMMENT ON TABLE list_network IS 'Networks with lists: twitter, mastodon:social';

CREATE TABLE list_owner (
    key       INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    UNIQUE (namespace, id)
);

COMMENT ON TABLE list_owner IS 'Numbers of lists';
COMMENT ON COLUMN list_owner.namespace IS 'The pipeline, as in the queue: followers:twitter';
COMMENT ON COLUMN list_owner.id IS 'The id of the owner';

CREATE TABLE list_account (
    key     INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    network SMALLINT NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    UNIQUE (network, id)
);

COMMENT ON TABLE list_account IS 'Numbers for ids, which are long and would stand in each edge three times. A number is never used again: kept pages hold it';

CREATE TABLE list_crawl (
    key            INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    list           INT NOT NULL,
    kind           TEXT NOT NULL CHECK (kind IN ('complete', 'prefix')),
    stops_after    BIGINT,
    started_at     BIGINT NOT NULL,
    appeared_after BIGINT,
    cursor         TEXT,
    newest_at      BIGINT NOT NULL,
    known_tail     BIGINT NOT NULL DEFAULT 0,
    pages          BIGINT NOT NULL DEFAULT 0,
    found          BIGINT NOT NULL DEFAULT 0,
    told           BIGINT,
    appeared       BIGINT NOT NULL DEFAULT 0,
    vanished       BIGINT NOT NULL DEFAULT 0,
    withheld       BIGINT NOT NULL DEFAULT 0,
    ended          TEXT,
    ended_at       BIGINT
);

COMMENT ON TABLE list_crawl IS 'A reading of a list, page by page; times in ms since the epoch';
COMMENT ON COLUMN list_crawl.stops_after IS 'Of a prefix: known members in a row';
COMMENT ON COLUMN list_crawl.appeared_after IS 'The start of the newest complete crawl before: what it shows anew is younger';
COMMENT ON COLUMN list_crawl.cursor IS 'Of the next page; NULL: the first one';
COMMENT ON COLUMN list_crawl.newest_at IS 'Its newest page, or else its start';
COMMENT ON COLUMN list_crawl.known_tail IS 'Known members in a row at the end of what was read';
COMMENT ON COLUMN list_crawl.found IS 'Distinct members';
COMMENT ON COLUMN list_crawl.told IS 'The number of members that the owner''s profile told';
COMMENT ON COLUMN list_crawl.withheld IS 'Edges that it did not show and did not close';
COMMENT ON COLUMN list_crawl.ended IS 'complete, withheld, known_tail, capped, hidden, partial, stale, looped or aborted; NULL: it is under way';

CREATE UNIQUE INDEX list_crawl_under_way ON list_crawl (list) WHERE ended_at IS NULL;
CREATE INDEX list_crawl_by_list ON list_crawl (list, key);
CREATE INDEX list_crawl_by_end ON list_crawl (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE list_page (
    key      INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    list     INT NOT NULL,
    crawl    INT NOT NULL,
    cursor   TEXT,
    asked_at BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    members  BYTEA NOT NULL
);

-- The differences of random numbers do not compress.
ALTER TABLE list_page ALTER COLUMN members SET STORAGE EXTERNAL;

COMMENT ON TABLE list_page IS 'Pages as proof; times in ms since the epoch';
COMMENT ON COLUMN list_page.cursor IS 'It was asked for with; NULL: the first one';
COMMENT ON COLUMN list_page.members IS 'The sorted numbers of its members: differences, 7 bits a byte, the least first';

CREATE INDEX list_page_by_crawl ON list_page (crawl, key);
CREATE INDEX list_page_by_list ON list_page (list, key);
CREATE INDEX list_page_by_time ON list_page (at, key);

CREATE TABLE list_edge (
    list        INT NOT NULL,
    member      INT NOT NULL,
    first_page  INT NOT NULL,
    last_page   INT,
    closed_by   INT,
    followed_at BIGINT,
    PRIMARY KEY (list, member, first_page)
);

COMMENT ON TABLE list_edge IS 'An account on a list, for a time. The view edge has its times';
COMMENT ON COLUMN list_edge.member IS 'The key of its account';
COMMENT ON COLUMN list_edge.first_page IS 'The page that showed it first';
COMMENT ON COLUMN list_edge.last_page IS 'Of a closed one: the last page that showed it';
COMMENT ON COLUMN list_edge.closed_by IS 'The crawl that did not show it; NULL: it is open';
COMMENT ON COLUMN list_edge.followed_at IS 'As the network tells it, ms since the epoch';

CREATE INDEX list_edge_by_member ON list_edge (member, list);
CREATE INDEX list_edge_by_page ON list_edge (first_page);
CREATE INDEX list_edge_by_end ON list_edge (closed_by, member) WHERE closed_by IS NOT NULL;

-- A state that a profile shows up to a week (604,800,000 ms) after the end of an edge counts as its cause: profiles of
-- accounts that are away are looked up once a week.
CREATE VIEW edge AS
SELECT list.namespace, list.id, account.id AS member,
       CASE WHEN list.namespace LIKE 'followers:%' THEN 'follower' ELSE 'friend' END AS direction,
       since.appeared_after, first.at AS appeared_by, of.followed_at,
       last.asked_at AS vanished_after, gone.ended_at AS vanished_by,
       CASE WHEN of.closed_by IS NOT NULL THEN COALESCE(
           (SELECT new_value FROM account_change WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND field = 'state' AND new_value IN ('suspended', 'deactivated', 'deleted')
            AND at > last.asked_at AND at <= gone.ended_at + 604800000 ORDER BY at LIMIT 1),
           (SELECT CASE WHEN new_value IN ('suspended', 'deactivated', 'deleted') THEN new_value END FROM account_change
            WHERE namespace = 'profiles:' || network.name AND id = account.id AND field = 'state'
            AND at <= last.asked_at ORDER BY at DESC LIMIT 1),
           (SELECT CASE
                WHEN state IN ('suspended', 'deactivated', 'deleted') AND NOT EXISTS (
                    SELECT 1 FROM account_change AS changed WHERE changed.namespace = profile.namespace
                    AND changed.id = profile.id AND changed.field = 'state') THEN state
                WHEN state <> 'unknown' AND checked_at >= gone.ended_at THEN 'unfollowed' END
            FROM account AS profile WHERE namespace = 'profiles:' || network.name AND id = account.id),
           'unknown') END AS cause,
       COALESCE(last.asked_at, GREATEST(first.asked_at, (SELECT MAX(started_at) FROM list_crawl
           WHERE list_crawl.list = of.list AND ended = 'complete'))) AS seen_at,
       of.list, of.member AS member_key, of.first_page, of.closed_by,
       of.member::bigint AS member_number, of.first_page::bigint AS page_number
FROM list_edge AS of
JOIN list_owner AS list ON list.key = of.list
JOIN list_account AS account ON account.key = of.member
JOIN list_network AS network ON network.key = account.network
JOIN list_page AS first ON first.key = of.first_page
JOIN list_crawl AS since ON since.key = first.crawl
LEFT JOIN list_page AS last ON last.key = of.last_page
LEFT JOIN list_crawl AS gone ON gone.key = of.closed_by;

COMMENT ON VIEW edge IS 'Who was on which list, and when: appeared in (appeared_after, appeared_by], vanished in (vanished_after, vanished_by], ms since the epoch';
COMMENT ON COLUMN edge.id IS 'The owner of the list';
COMMENT ON COLUMN edge.cause IS 'Of a closed one: unfollowed; suspended, deactivated or deleted, as profiles show the member then; or unknown';
COMMENT ON COLUMN edge.seen_at IS 'A moment up to which pages prove that it was there';

CREATE VIEW crawl AS
SELECT list.namespace, list.id, of.key::bigint AS number, of.kind, of.started_at, of.ended_at, of.ended, of.pages, of.found,
       of.told, of.appeared, of.vanished, of.withheld
FROM list_crawl AS of JOIN list_owner AS list ON list.key = of.list;

COMMENT ON VIEW crawl IS 'Crawls of lists; times in ms since the epoch';

-- Those whose edges are to go as well.
CREATE INDEX account_forgotten ON account (namespace, id) WHERE forgotten_at IS NOT NULL;
