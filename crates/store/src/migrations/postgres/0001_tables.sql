-- Creates all tables, indexes, views, functions and triggers of the store in an empty PostgreSQL database. The program applies it with
-- `twitter-updater migrate`. The file for SQLite has the same order: posts, history, sources, budget, accounts, handles, visits, media,
-- lists and edges, communities, forgotten people, triggers.
--
-- Times are milliseconds (ms) since the Unix epoch: BIGINT, no time zone.
--
-- Ids compare by bytes (COLLATE "C"). So every process locks rows in the same order in any locale, and an index compares without the
-- locale's rules.

-- Posts

-- raw: nearly every answer brings another raw object, since the author's counts change. Beside the table (TOAST), each object would be
-- written with two index entries of its own, and would leave as much for the next vacuum. So it is stored in the row. Each page has free
-- space for one row: a new version of a row is stored beside the old one, changes no index, and is reused without a vacuum. Measurements
-- are in docs/performance.md.
CREATE TABLE tweet (
    namespace        TEXT COLLATE "C" NOT NULL,
    id               TEXT COLLATE "C" NOT NULL,
    state            TEXT   NOT NULL CHECK (state IN ('live', 'unavailable', 'ended', 'dead')),
    created_at       BIGINT,
    current_id       TEXT,
    text             TEXT,
    author_id        TEXT,
    author_name      TEXT,
    retweet_count    BIGINT,
    favorite_count   BIGINT,
    reply_count      BIGINT,
    quote_count      BIGINT,
    bookmark_count   BIGINT,
    impression_count BIGINT,
    withheld_in      TEXT,
    raw              TEXT,
    first_seen       BIGINT NOT NULL,
    checked_at       BIGINT,
    changed_at       BIGINT,
    next_due         BIGINT,
    lookups          BIGINT NOT NULL,
    misses           BIGINT NOT NULL,
    missing_since    BIGINT,
    reason           TEXT,
    lang             TEXT,
    reply_to         TEXT,
    retweet_of       TEXT,
    quote_of         TEXT,
    conversation_id  TEXT,
    reply_settings   TEXT,
    truncated        BOOLEAN,
    unreadable       TEXT,
    recent           DOUBLE PRECISION,
    missing_reason   TEXT,
    reply_to_author  TEXT,
    labels           TEXT,
    PRIMARY KEY (namespace, id)
) WITH (toast_tuple_target = 4080, fillfactor = 60);

-- lz4 takes a third of pglz's time. A server without lz4 uses pglz.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE tweet ALTER COLUMN raw SET COMPRESSION lz4';
EXCEPTION
    WHEN feature_not_supported OR syntax_error THEN NULL;
END
$$;

COMMENT ON TABLE tweet IS 'Current state of each item: a post, an account, a list or a medium. Only twitter-updater writes it';
COMMENT ON COLUMN tweet.namespace IS 'Pipeline, as in the queue: tweet:update';
COMMENT ON COLUMN tweet.id IS 'Id under which it is looked up';
COMMENT ON COLUMN tweet.state IS 'live: looked up regularly; unavailable: missing, confirmed; ended: tracking finished; '
    'dead: failed for good, kept for a person';
COMMENT ON COLUMN tweet.created_at IS 'Time of creation, ms since the epoch';
COMMENT ON COLUMN tweet.current_id IS 'Id of its newest known version (after edits), if it differs';
COMMENT ON COLUMN tweet.retweet_count IS 'As of the newest answer that stated it; NULL: no answer did; the same for all counts';
COMMENT ON COLUMN tweet.withheld_in IS 'Codes of countries in which it is withheld, comma separated (XY: all); NULL: not withheld';
COMMENT ON COLUMN tweet.raw IS 'Newest object, as the network sent it (JSON)';
COMMENT ON COLUMN tweet.first_seen IS 'Time of its first record, ms since the epoch';
COMMENT ON COLUMN tweet.checked_at IS 'Time of its newest stored answer, ms since the epoch; NULL: none yet';
COMMENT ON COLUMN tweet.changed_at IS 'Time of the answer that last changed a count, ms since the epoch: its newest row in tweet_metrics';
COMMENT ON COLUMN tweet.next_due IS 'Time of its next lookup, ms since the epoch; NULL: tracking finished';
COMMENT ON COLUMN tweet.lookups IS 'Number of stored answers, misses included';
COMMENT ON COLUMN tweet.misses IS 'Number of misses in a row';
COMMENT ON COLUMN tweet.missing_since IS 'Time of the first of these misses, ms since the epoch';
COMMENT ON COLUMN tweet.reason IS 'Reason, if it is dead';
COMMENT ON COLUMN tweet.lang IS 'Language, as the network states it; NULL here and in the next columns: not stated';
COMMENT ON COLUMN tweet.reply_to IS 'Id of the post that it replies to';
COMMENT ON COLUMN tweet.retweet_of IS 'Id of the reposted post';
COMMENT ON COLUMN tweet.quote_of IS 'Id of the quoted post';
COMMENT ON COLUMN tweet.conversation_id IS 'Id of the first post of the conversation';
COMMENT ON COLUMN tweet.reply_settings IS 'Accounts that may reply, as the network states it (X)';
COMMENT ON COLUMN tweet.truncated IS 'True: the text is cut short';
COMMENT ON COLUMN tweet.unreadable IS 'Error of its newest answer; NULL: the answer was readable';
COMMENT ON COLUMN tweet.recent IS 'Weighted counts of recent events (of an account: changes per day) as of the newest answer '
    'that found it. An adaptive schedule reads them at the next answer. NULL: that answer had no counts, or the schedule uses age alone';
COMMENT ON COLUMN tweet.missing_reason IS 'Reason for its absence: not_found, deactivated, deleted, suspended or not_authorized, '
    'as the network states it. NULL: the network states none, or the item is not missing';
COMMENT ON COLUMN tweet.reply_to_author IS 'Id of the account that it replies to';
COMMENT ON COLUMN tweet.labels IS 'Labels of the post and of its author, comma separated';

-- Counts by state: they read the index alone, not rows of kilobytes.
CREATE INDEX tweet_by_state ON tweet (namespace, state);

-- Rebuild of the queue: reads live and unavailable items page by page, in the order of ids. No column that an answer changes is in it.
CREATE INDEX tweet_living ON tweet (namespace, id) WHERE state IN ('live', 'unavailable');

-- Dead items, for a person.
CREATE INDEX tweet_dead ON tweet (namespace, id) WHERE state = 'dead';

-- Removal of ended items. An item enters it once in its life.
CREATE INDEX tweet_ended ON tweet (namespace, id) WHERE state = 'ended';

CREATE TABLE tweet_way (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    pipeline  TEXT   NOT NULL,
    source    TEXT   NOT NULL,
    query     TEXT,
    first_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, id, pipeline, source)
);

COMMENT ON TABLE tweet_way IS 'Ways by which an item arrived, each with its first time';
COMMENT ON COLUMN tweet_way.pipeline IS 'Way of arrival: enqueue, once, http, incoming, poll, stream, fan_out, follow, visit …';
COMMENT ON COLUMN tweet_way.source IS 'Name of a file, of a source in the settings, of a pipeline …; empty: there is only one';
COMMENT ON COLUMN tweet_way.query IS 'Request of that source: a query or an account';
COMMENT ON COLUMN tweet_way.first_at IS 'Time of its first arrival by this way, ms since the epoch';

-- History

CREATE TABLE tweet_metrics (
    namespace        TEXT COLLATE "C" NOT NULL,
    id               TEXT COLLATE "C" NOT NULL,
    checked_at       BIGINT NOT NULL,
    retweet_count    BIGINT,
    favorite_count   BIGINT,
    reply_count      BIGINT,
    quote_count      BIGINT,
    bookmark_count   BIGINT,
    impression_count BIGINT,
    PRIMARY KEY (namespace, id, checked_at)
);

COMMENT ON TABLE tweet_metrics IS 'Counts over time: a row is valid from checked_at to the next row';
COMMENT ON COLUMN tweet_metrics.checked_at IS 'Time of the answer, ms since the epoch';

CREATE TABLE tweet_change (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    field     TEXT   NOT NULL CHECK (field IN ('text', 'current_id', 'withheld_in', 'reply_settings', 'state')),
    old_value TEXT,
    new_value TEXT,
    PRIMARY KEY (namespace, id, at, field)
);

COMMENT ON TABLE tweet_change IS 'Changes of a post, except its counts: text and version (edits), countries that withhold it, '
    'accounts that may reply, and unavailability. Old values are here, current ones in tweet';
COMMENT ON COLUMN tweet_change.at IS 'Time of the answer that showed the change, ms since the epoch';

-- Sources

CREATE TABLE source_position (
    namespace     TEXT COLLATE "C" NOT NULL,
    source        TEXT COLLATE "C" NOT NULL,
    position      TEXT,
    saved_at      BIGINT,
    brought_at    BIGINT,
    failing_since BIGINT,
    failures      BIGINT NOT NULL DEFAULT 0,
    error         TEXT,
    failed_at     BIGINT,
    notes         TEXT,
    PRIMARY KEY (namespace, source)
);

COMMENT ON TABLE source_position IS 'Read position of each polled source and visited account, and its failures. '
    'A position is saved after the posts up to it';
COMMENT ON COLUMN source_position.namespace IS 'Pipeline, as in the queue: source:poll:…';
COMMENT ON COLUMN source_position.source IS 'Name of the source in the settings, or id of the visited account';
COMMENT ON COLUMN source_position.position IS 'JSON: since (all posts up to this id are handed over), latest, open (a round in progress) …';
COMMENT ON COLUMN source_position.saved_at IS 'Time at which the last page was read and saved, ms since the epoch';
COMMENT ON COLUMN source_position.brought_at IS 'Time of the last page with an unknown post; before any, of the first attempt; '
    'ms since the epoch';
COMMENT ON COLUMN source_position.failing_since IS 'Start of the time without a readable page, ms since the epoch';
COMMENT ON COLUMN source_position.failures IS 'Number of failures in a row, while other sources answered';
COMMENT ON COLUMN source_position.error IS 'Last error';
COMMENT ON COLUMN source_position.failed_at IS 'Time of the last error, ms since the epoch';
COMMENT ON COLUMN source_position.notes IS 'Notes of the poller about the source: a rhythm, as JSON';

CREATE TABLE source_gap (
    namespace TEXT COLLATE "C" NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    from_id   TEXT COLLATE "C" NOT NULL,
    to_id     TEXT COLLATE "C" NOT NULL,
    reason    TEXT   NOT NULL,
    noted_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, source, from_id, to_id)
);

COMMENT ON TABLE source_gap IS 'Posts of a source that its API no longer returned, as ranges of ids';
COMMENT ON COLUMN source_gap.from_id IS 'Least id that may be missing';
COMMENT ON COLUMN source_gap.to_id IS 'Greatest id that may be missing';
COMMENT ON COLUMN source_gap.noted_at IS 'Time of its first record, ms since the epoch';

-- Budget

CREATE TABLE schedule_budget (
    namespace      TEXT COLLATE "C" PRIMARY KEY,
    corrected_at   BIGINT           NOT NULL,
    price          DOUBLE PRECISION NOT NULL,
    level          DOUBLE PRECISION NOT NULL,
    calls          DOUBLE PRECISION NOT NULL,
    table_calls    DOUBLE PRECISION NOT NULL,
    events         DOUBLE PRECISION NOT NULL,
    average_events DOUBLE PRECISION NOT NULL
);

COMMENT ON TABLE schedule_budget IS 'Corrections of an adaptive schedule''s budget, per pipeline, and the counts of its queue '
    'at that time: the next day is counted from them';
COMMENT ON COLUMN schedule_budget.corrected_at IS 'Time of the correction, ms since the epoch';
COMMENT ON COLUMN schedule_budget.price IS 'Factor on the price of a call';
COMMENT ON COLUMN schedule_budget.level IS 'Events of the average item, as a multiple of the model''s';
COMMENT ON COLUMN schedule_budget.calls IS 'Demanded calls';
COMMENT ON COLUMN schedule_budget.table_calls IS 'Calls that the age table would have made';
COMMENT ON COLUMN schedule_budget.events IS 'Events that answers showed';
COMMENT ON COLUMN schedule_budget.average_events IS 'Events that average items would have had';

-- Accounts

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

COMMENT ON TABLE account IS 'Account, as its newest answers state it. Its state in the queue, due times, misses and raw object '
    'are in its row in tweet';
COMMENT ON COLUMN account.namespace IS 'Pipeline, as in the queue: profiles:twitter';
COMMENT ON COLUMN account.checked_at IS 'Time of its newest answer, ms since the epoch';
COMMENT ON COLUMN account.state IS 'live, protected, suspended, deactivated, deleted or unknown '
    '(missing, and the network states no reason); NULL: no answer has stated it';
COMMENT ON COLUMN account.withheld_in IS 'Codes of countries in which it is withheld, comma separated; empty: none';
COMMENT ON COLUMN account.moved_to IS 'Id of the account that its owner moved to (Mastodon)';
COMMENT ON COLUMN account.followers IS 'As of the newest answer that stated it; NULL: no answer did; the same for all counts';
COMMENT ON COLUMN account.last_post_at IS 'Time of its last post, as the newest answer states it, ms since the epoch';
COMMENT ON COLUMN account.active_at IS 'Newest known sign of life: a post, or a greater number of posts, ms since the epoch';
COMMENT ON COLUMN account.forgotten_at IS 'Time at which its content was removed, ms since the epoch; NULL: it was not, '
    'or the account came back';

-- Search for a handle, in any case.
CREATE INDEX account_by_handle ON account (lower(handle)) WHERE handle IS NOT NULL;

-- Accounts whose edges are removed as well.
CREATE INDEX account_forgotten ON account (namespace, id) WHERE forgotten_at IS NOT NULL;

CREATE TABLE account_change (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    field     TEXT   NOT NULL,
    old_value TEXT   NOT NULL,
    new_value TEXT   NOT NULL,
    PRIMARY KEY (namespace, id, at, field)
);

COMMENT ON TABLE account_change IS 'Changes of a field of an account, and of its state';
COMMENT ON COLUMN account_change.at IS 'Time of the answer that showed the change, ms since the epoch';
COMMENT ON COLUMN account_change.old_value IS 'Old value; empty: there was none';
COMMENT ON COLUMN account_change.new_value IS 'New value; empty: there is none any more';

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

COMMENT ON TABLE account_count IS 'Counts of an account over time: a row is valid from checked_at (ms since the epoch) to the next row';

CREATE TABLE account_post (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    post      TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (namespace, id, post)
);

COMMENT ON TABLE account_post IS 'Collected posts of an account';
COMMENT ON COLUMN account_post.post IS 'Id of the post';
COMMENT ON COLUMN account_post.at IS 'Time of its creation, or else of its discovery, ms since the epoch';

-- Handles

CREATE TABLE account_handle (
    namespace TEXT COLLATE "C" NOT NULL,
    handle    TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    until     BIGINT NOT NULL DEFAULT 0,
    reason    TEXT,
    PRIMARY KEY (namespace, handle)
);

COMMENT ON TABLE account_handle IS 'Handles of accounts that came without an id. A handle waits until a call resolves it. '
    'One without an account stays with the reason';
COMMENT ON COLUMN account_handle.handle IS 'Handle in lower case, without @';
COMMENT ON COLUMN account_handle.at IS 'Time of its arrival or its rejection, ms since the epoch';
COMMENT ON COLUMN account_handle.until IS 'End of an updater''s claim, ms since the epoch';
COMMENT ON COLUMN account_handle.reason IS 'Reason why it has no account; NULL: it waits';

CREATE INDEX account_handle_waiting ON account_handle (namespace, at) WHERE reason IS NULL;

-- Visits

CREATE TABLE visit (
    namespace   TEXT COLLATE "C" NOT NULL,
    account     TEXT COLLATE "C" NOT NULL,
    part        BIGINT NOT NULL,
    followed_at BIGINT NOT NULL,
    left_at     BIGINT,
    PRIMARY KEY (namespace, account)
);

COMMENT ON TABLE visit IS 'Followed accounts, whose timelines are visited regularly. Their states and due times are in tweet';
COMMENT ON COLUMN visit.namespace IS 'Pipeline without its part: visits:twitter';
COMMENT ON COLUMN visit.account IS 'Id of the account';
COMMENT ON COLUMN visit.part IS 'Part of the accounts that it belongs to; each part has its own queue';
COMMENT ON COLUMN visit.followed_at IS 'Start of the follow, ms since the epoch';
COMMENT ON COLUMN visit.left_at IS 'End of the follow, ms since the epoch; NULL: it is followed';

-- Media

CREATE TABLE media (
    namespace     TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    url           TEXT   NOT NULL,
    kind          TEXT   NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('waiting', 'stored', 'gone', 'refused', 'failed', 'removed')),
    bytes         BIGINT,
    type          TEXT,
    sha256        TEXT COLLATE "C",
    attempts      BIGINT NOT NULL DEFAULT 0,
    failing_since BIGINT,
    reason        TEXT,
    first_at      BIGINT NOT NULL,
    checked_at    BIGINT,
    PRIMARY KEY (namespace, id)
);

COMMENT ON TABLE media IS 'Pictures, videos and sounds of posts. Their due times are in tweet';
COMMENT ON COLUMN media.namespace IS 'Pipeline, as in the queue: media:twitter';
COMMENT ON COLUMN media.url IS 'Address of its file';
COMMENT ON COLUMN media.kind IS 'photo, video, gif, audio or unknown, as the network states it';
COMMENT ON COLUMN media.state IS 'waiting, stored, gone (its host does not return it), refused (too large, of another type, '
    'or not on the public internet), failed (for too long) or removed (no stored post shows it any more)';
COMMENT ON COLUMN media.bytes IS 'Size of its file';
COMMENT ON COLUMN media.type IS 'Type of its file, by its first bytes: image/jpeg';
COMMENT ON COLUMN media.sha256 IS 'Hash of its file, which is also the file''s name';
COMMENT ON COLUMN media.attempts IS 'Number of failures';
COMMENT ON COLUMN media.failing_since IS 'Time of the first of the failures in a row, ms since the epoch';
COMMENT ON COLUMN media.reason IS 'Reason why it is not stored';
COMMENT ON COLUMN media.first_at IS 'Time at which a post first named it, ms since the epoch';
COMMENT ON COLUMN media.checked_at IS 'Time of the last attempt, ms since the epoch';

CREATE INDEX media_by_hash ON media (sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE media_use (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    post      TEXT COLLATE "C" NOT NULL,
    first_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, id, post)
);

COMMENT ON TABLE media_use IS 'Posts that show a medium';
COMMENT ON COLUMN media_use.post IS 'Id of the post';
COMMENT ON COLUMN media_use.first_at IS 'Time of the first sighting, ms since the epoch';

CREATE INDEX media_use_by_post ON media_use (namespace, post);

-- A process records a file before it writes the file. So all processes count its bytes from then on, and a file that belongs to no
-- medium can be found.
CREATE TABLE media_file (
    sha256   TEXT COLLATE "C" PRIMARY KEY,
    bytes    BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    removing BIGINT
);

COMMENT ON TABLE media_file IS 'Files of media, in the folder or the bucket under their hashes';
COMMENT ON COLUMN media_file.at IS 'Time of its last write or reuse, ms since the epoch';
COMMENT ON COLUMN media_file.removing IS 'Start of its removal, ms since the epoch';

CREATE TABLE media_room (
    one   BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
    bytes BIGINT NOT NULL
);

COMMENT ON TABLE media_room IS 'One row: the total size of all files of media. A trigger keeps it up to date';

INSERT INTO media_room (bytes) VALUES (0);

-- Lists and edges

-- Follows between accounts, and their times: see store/edges.rs. A list is the followers or the friends of an account, its owner. Its
-- state and due times are in tweet.

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
COMMENT ON COLUMN list_owner.namespace IS 'Pipeline, as in the queue: followers:twitter';
COMMENT ON COLUMN list_owner.id IS 'Id of the owner';

CREATE TABLE list_account (
    key     INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    network SMALLINT NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    UNIQUE (network, id)
);

COMMENT ON TABLE list_account IS 'Numbers of account ids: ids are long, and each edge would contain one three times. '
    'A number is never reused: stored pages contain it';

CREATE TABLE list_crawl (
    key            INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    list           INT    NOT NULL,
    kind           TEXT   NOT NULL CHECK (kind IN ('complete', 'prefix')),
    stops_after    BIGINT,
    started_at     BIGINT NOT NULL,
    appeared_after BIGINT,
    cursor         TEXT,
    newest_at      BIGINT NOT NULL,
    known_tail     BIGINT NOT NULL DEFAULT 0,
    pages          BIGINT NOT NULL DEFAULT 0,
    found          BIGINT NOT NULL DEFAULT 0,
    stated_total           BIGINT,
    appeared       BIGINT NOT NULL DEFAULT 0,
    vanished       BIGINT NOT NULL DEFAULT 0,
    withheld       BIGINT NOT NULL DEFAULT 0,
    ended          TEXT,
    ended_at       BIGINT,
    unreadable     BIGINT NOT NULL DEFAULT 0
);

COMMENT ON TABLE list_crawl IS 'Crawls: readings of a list, page by page; times in ms since the epoch';
COMMENT ON COLUMN list_crawl.stops_after IS 'Number of known members in a row that ends a prefix crawl';
COMMENT ON COLUMN list_crawl.appeared_after IS 'Start of the newest complete crawl before it: its new members appeared later';
COMMENT ON COLUMN list_crawl.cursor IS 'Cursor of the next page; NULL: the first page';
COMMENT ON COLUMN list_crawl.newest_at IS 'Time of its newest page, or else of its start';
COMMENT ON COLUMN list_crawl.known_tail IS 'Number of known members in a row at the end of the pages so far';
COMMENT ON COLUMN list_crawl.found IS 'Number of distinct members';
COMMENT ON COLUMN list_crawl.stated_total IS 'Number of members that the owner''s profile states';
COMMENT ON COLUMN list_crawl.withheld IS 'Number of edges that it did not show and did not close';
COMMENT ON COLUMN list_crawl.ended IS 'complete, withheld, known_tail, capped, hidden, partial, stale, looped or aborted; '
    'NULL: it is under way';
COMMENT ON COLUMN list_crawl.unreadable IS 'Number of unreadable ids on its pages';

CREATE UNIQUE INDEX list_crawl_under_way ON list_crawl (list) WHERE ended_at IS NULL;
CREATE INDEX list_crawl_by_list ON list_crawl (list, key);
CREATE INDEX list_crawl_by_end ON list_crawl (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE list_page (
    key      INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    list     INT    NOT NULL,
    crawl    INT    NOT NULL,
    cursor   TEXT,
    asked_at BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    members  BYTEA  NOT NULL
);

-- Differences of random numbers do not compress.
ALTER TABLE list_page ALTER COLUMN members SET STORAGE EXTERNAL;

COMMENT ON TABLE list_page IS 'Pages of crawls, as proof of the edges; times in ms since the epoch';
COMMENT ON COLUMN list_page.cursor IS 'Cursor of the request; NULL: the first page';
COMMENT ON COLUMN list_page.members IS 'Sorted numbers of its members: their differences, 7 bits per byte, lowest bits first';

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

COMMENT ON TABLE list_edge IS 'Members of a list, each for an interval of time. The view edge has the times';
COMMENT ON COLUMN list_edge.member IS 'Key of its account';
COMMENT ON COLUMN list_edge.first_page IS 'First page that showed it';
COMMENT ON COLUMN list_edge.last_page IS 'Last page that showed a closed edge';
COMMENT ON COLUMN list_edge.closed_by IS 'Crawl that closed it, since it did not show it; NULL: the edge is open';
COMMENT ON COLUMN list_edge.followed_at IS 'Time of the follow, as the network states it, ms since the epoch';

CREATE INDEX list_edge_by_member ON list_edge (member, list);
CREATE INDEX list_edge_by_page ON list_edge (first_page);
CREATE INDEX list_edge_by_end ON list_edge (closed_by, member) WHERE closed_by IS NOT NULL;

-- The cause of an end is the state of the member's profile at that time, or the state that it reached within a week (604,800,000 ms)
-- after it: profiles of missing accounts are looked up once a week. The first state of a profile is no change; it is valid from the first
-- miss. "unfollowed" needs an answer after the end that found the account, before any answer that did not. New counts prove such an
-- answer. An unconfirmed miss sets the time of the profile (checked_at), but is no such answer.
CREATE VIEW edge AS
SELECT list.namespace, list.id, account.id AS member,
       CASE WHEN list.namespace LIKE 'followers:%' THEN 'follower' ELSE 'friend' END AS direction,
       since.appeared_after, first.at AS appeared_by, of.followed_at,
       last.asked_at AS vanished_after, gone.ended_at AS vanished_by,
       CASE WHEN of.closed_by IS NOT NULL THEN COALESCE(
           (SELECT CASE WHEN new_value IN ('suspended', 'deactivated', 'deleted') THEN new_value END FROM account_change
            WHERE namespace = 'profiles:' || network.name AND id = account.id AND field = 'state'
            AND at <= gone.ended_at ORDER BY at DESC LIMIT 1),
           (SELECT new_value FROM account_change WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND field = 'state' AND new_value IN ('suspended', 'deactivated', 'deleted')
            AND at > gone.ended_at
            AND at <= gone.ended_at + 604800000 ORDER BY at LIMIT 1),
           (SELECT state FROM account AS profile WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND state IN ('suspended', 'deactivated', 'deleted') AND NOT EXISTS (
                SELECT 1 FROM account_change AS changed
                WHERE changed.namespace = profile.namespace AND changed.id = profile.id AND changed.field = 'state')
            AND COALESCE((SELECT missing_since FROM tweet AS item
                WHERE item.namespace = profile.namespace AND item.id = profile.id), checked_at)
                <= gone.ended_at + 604800000),
           (SELECT 'unfollowed' FROM account AS profile WHERE namespace = 'profiles:' || network.name AND id = account.id
            AND NOT EXISTS (
                SELECT 1 FROM account_change AS changed
                WHERE changed.namespace = profile.namespace AND changed.id = profile.id AND changed.field = 'state'
                AND changed.new_value = 'unknown' AND changed.at > last.asked_at
                AND changed.at <= gone.ended_at)
            AND COALESCE(
                (SELECT old_value IN ('live', 'protected') AND (new_value IN ('live', 'protected') OR EXISTS (
                    SELECT 1 FROM account_count AS found
                    WHERE found.namespace = changed.namespace AND found.id = changed.id AND found.checked_at < changed.at
                    AND found.checked_at >= gone.ended_at))
                 FROM account_change AS changed
                 WHERE changed.namespace = profile.namespace AND changed.id = profile.id AND changed.field = 'state'
                 AND changed.at > gone.ended_at ORDER BY changed.at LIMIT 1),
                checked_at >= gone.ended_at AND (
                    state = 'protected' OR state = 'live' AND EXISTS (
                    SELECT 1 FROM tweet AS item
                    WHERE item.namespace = profile.namespace AND item.id = profile.id AND item.missing_since IS NULL)))),
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

COMMENT ON VIEW edge IS 'Edges with their times: each appeared in (appeared_after, appeared_by] and vanished in '
    '(vanished_after, vanished_by], ms since the epoch';
COMMENT ON COLUMN edge.id IS 'Owner of the list';
COMMENT ON COLUMN edge.cause IS 'Cause of the end of a closed edge: unfollowed; suspended, deactivated or deleted, '
    'as the member''s profile shows for that time; or unknown';
COMMENT ON COLUMN edge.seen_at IS 'Latest time at which pages prove that it was there';

CREATE VIEW crawl AS
SELECT list.namespace, list.id, of.key::bigint AS number, of.kind, of.started_at, of.ended_at, of.ended, of.pages, of.found,
       of.stated_total, of.appeared, of.vanished, of.withheld
FROM list_crawl AS of JOIN list_owner AS list ON list.key = of.list;

COMMENT ON VIEW crawl IS 'Crawls of lists; times in ms since the epoch';

-- Communities

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

COMMENT ON TABLE community_account IS 'Accounts of a community. Their due times are in tweet';
COMMENT ON COLUMN community_account.namespace IS 'Pipeline of the community: community:twitter:pt-pt';
COMMENT ON COLUMN community_account.state IS 'seen, candidate, open (judged, and not decided), member or outside';
COMMENT ON COLUMN community_account.first_at IS 'Time of its first appearance, ms since the epoch';
COMMENT ON COLUMN community_account.admitted_at IS 'Time at which it became a candidate, ms since the epoch';
COMMENT ON COLUMN community_account.decided_at IS 'Start of its current state, ms since the epoch';
COMMENT ON COLUMN community_account.appearances IS 'Number of members, and of posts of searches, that led to it';
COMMENT ON COLUMN community_account.posts IS 'Number of its posts that were found since its first appearance';
COMMENT ON COLUMN community_account.judged_posts IS 'Value of posts at its last judgement';
COMMENT ON COLUMN community_account.judged_at IS 'Time of its last judgement, ms since the epoch';
COMMENT ON COLUMN community_account.rule IS 'Version of the rule that judged it';
COMMENT ON COLUMN community_account.score IS 'Score from -1 (outside) to 1 (a member)';
COMMENT ON COLUMN community_account.evidence IS 'Result of each test, as JSON';
COMMENT ON COLUMN community_account.by_hand IS 'Person who decided; NULL: the rule decided';
COMMENT ON COLUMN community_account.why IS 'Reason that this person gave';
COMMENT ON COLUMN community_account.follows IS '1: it is followed for this community';

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

COMMENT ON TABLE community_appearance IS 'Appearances of an account: members that named or reposted it, follow it or are followed by it, '
    'and posts that a search found';
COMMENT ON COLUMN community_appearance.source IS 'Id of the member, or of the post that a search found';
COMMENT ON COLUMN community_appearance.post IS 'Id of the post that shows it; NULL: none does, or it is removed or blanked';
COMMENT ON COLUMN community_appearance.first_at IS 'Time of the first such appearance, ms since the epoch';

-- Appearances of a post that is removed or blanked.
CREATE INDEX community_appearance_by_post ON community_appearance (post COLLATE "C") WHERE post IS NOT NULL;

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

COMMENT ON TABLE community_change IS 'Changes of the state of an account in a community';
COMMENT ON COLUMN community_change.at IS 'Time of the decision, ms since the epoch';
COMMENT ON COLUMN community_change.old_state IS 'State before; NULL: it was not known';
COMMENT ON COLUMN community_change.rule IS 'Version of the rule; NULL: no rule decided';
COMMENT ON COLUMN community_change.by_hand IS 'Person who decided';

CREATE INDEX community_change_by_time ON community_change (namespace, at);

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

COMMENT ON TABLE community_growth IS 'Size of a community over time';
COMMENT ON COLUMN community_growth.at IS 'Time of the count, ms since the epoch';
COMMENT ON COLUMN community_growth.posts IS 'Number of stored posts of the network';
COMMENT ON COLUMN community_growth.edges IS 'Number of known follows of the network';

CREATE TABLE post_language (
    namespace  TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    language   TEXT             NOT NULL,
    confidence DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (namespace, id)
);

COMMENT ON TABLE post_language IS 'Language of a post, as its text shows';
COMMENT ON COLUMN post_language.namespace IS 'Pipeline of the post: tweet:update';
COMMENT ON COLUMN post_language.language IS 'ISO 639-1';
COMMENT ON COLUMN post_language.confidence IS '0 to 1';

-- Exported tables of a community. An export contains accounts that were candidates at least: only these have rows in tweet.
CREATE VIEW community AS
SELECT namespace, account AS id, account AS member, state, first_at, admitted_at, decided_at, appearances, posts, judged_at, rule,
       CAST(ROUND(score * 1000) AS BIGINT) AS score_thousandths, evidence, by_hand, why
FROM community_account;

CREATE VIEW community_history AS
SELECT namespace, account AS id, at, old_state, new_state, rule, by_hand FROM community_change;

CREATE VIEW community_reason AS
SELECT namespace, account AS id, source, reason, post, first_at FROM community_appearance;

-- Forgotten people

-- Blocked people: see store/forget.rs. A row has a pseudonym, no id.
CREATE TABLE forgotten_person (
    hash TEXT COLLATE "C" PRIMARY KEY,
    at   BIGINT NOT NULL
);

COMMENT ON TABLE forgotten_person IS 'Blocked people, of whom nothing is stored any more (forget account)';
COMMENT ON COLUMN forgotten_person.hash IS 'HMAC-SHA-256 of the network and the id of the account, in hexadecimal digits';
COMMENT ON COLUMN forgotten_person.at IS 'Time from which the person is blocked, ms since the epoch';

-- Fingerprint of the key of the pseudonyms, which is in a file outside the database (forget.key_file): see store/pseudonyms.rs.
CREATE TABLE forgotten_key (
    one         BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
    fingerprint TEXT COLLATE "C" NOT NULL
);

COMMENT ON TABLE forgotten_key IS 'One row, from the first forgotten person on';
COMMENT ON COLUMN forgotten_key.fingerprint IS 'Distinguishes the key from others; the key cannot be computed from it';

-- Returns the forgotten ones of these people, given with their pseudonyms (JSON). NULL: the process has not read its key yet.
-- STABLE: it sees the data that the calling statement sees.
CREATE FUNCTION forgotten_among(people TEXT) RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF people IS NULL THEN
        IF EXISTS (SELECT FROM forgotten_person) THEN
            RAISE EXCEPTION 'the key of forgotten people is needed' USING ERRCODE = 'TU001';
        END IF;
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT of.key FROM json_each_text(people::json) AS of
                 JOIN forgotten_person ON forgotten_person.hash = of.value);
END $$;

-- Triggers: they write changes and counts, so no writer can forget one.

-- Before the first answer, a row has the data of its arrival: then only its text and version are compared. Two changes of a text are no
-- edits: a cut text that is complete now, and another text of a repost, which cannot be edited.
CREATE FUNCTION tweet_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tweet_change
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'text', OLD.text, NEW.text
    WHERE NEW.text <> OLD.text AND OLD.truncated IS NOT TRUE AND NEW.retweet_of IS NULL
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'current_id', OLD.current_id, NEW.current_id
    WHERE NEW.current_id IS DISTINCT FROM OLD.current_id
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'withheld_in', OLD.withheld_in, NEW.withheld_in
    WHERE NEW.withheld_in IS DISTINCT FROM OLD.withheld_in AND OLD.checked_at IS NOT NULL
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'reply_settings', OLD.reply_settings, NEW.reply_settings
    WHERE NEW.reply_settings <> OLD.reply_settings
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'state', OLD.state, NEW.state
    WHERE NEW.state <> OLD.state AND 'unavailable' IN (OLD.state, NEW.state) AND OLD.checked_at IS NOT NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER tweet_changes AFTER UPDATE ON tweet FOR EACH ROW
WHEN (NEW.checked_at IS DISTINCT FROM OLD.checked_at AND (
    NEW.text <> OLD.text
    OR NEW.current_id IS DISTINCT FROM OLD.current_id
    OR NEW.withheld_in IS DISTINCT FROM OLD.withheld_in
    OR NEW.reply_settings <> OLD.reply_settings
    OR NEW.state <> OLD.state
))
EXECUTE FUNCTION tweet_changes();

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

-- A field that one of the two answers does not state has not changed. The address in a profile has not changed either if the old or the
-- new one is a short link (t.co): it may lead to the same address.
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
    WHERE before <> now AND NOT (field = 'url' AND before <> '' AND now <> ''
        AND (before LIKE 'http%://t.co/%' OR now LIKE 'http%://t.co/%'));
    RETURN NULL;
END
$$;

CREATE TRIGGER account_changes AFTER UPDATE ON account FOR EACH ROW
WHEN (OLD.handle <> NEW.handle OR OLD.display_name <> NEW.display_name OR OLD.description <> NEW.description
    OR OLD.location <> NEW.location OR OLD.url <> NEW.url OR OLD.picture <> NEW.picture OR OLD.banner <> NEW.banner
    OR OLD.protected <> NEW.protected OR OLD.verified <> NEW.verified OR OLD.withheld_in <> NEW.withheld_in
    OR OLD.moved_to <> NEW.moved_to OR OLD.state <> NEW.state)
EXECUTE FUNCTION account_changes();

-- Handles move from one account to another. If an account takes a handle, posts of its former bearers get the current handle of their
-- author, or none while that is unknown. The triggers run at the commit, when all accounts of a batch are stored. They run for each
-- account, often while the tables grow faster than their statistics. Without sequential scans the two indexes of handles find the former
-- bearers, also without statistics.
CREATE FUNCTION account_takes_handle() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    posts CONSTANT TEXT := CASE split_part(NEW.namespace, ':', 2) WHEN 'twitter' THEN 'tweet:update'
        WHEN 'mastodon' THEN 'mastodon:update:' || split_part(NEW.namespace, ':', 3)
        ELSE split_part(NEW.namespace, ':', 2) || ':update' END;
    of RECORD;
BEGIN
    FOR of IN
        WITH bearer AS MATERIALIZED (
            SELECT namespace, id FROM account WHERE lower(handle) = lower(NEW.handle)
            UNION ALL SELECT namespace, id FROM account_change
            WHERE field = 'handle' AND lower(old_value) = lower(NEW.handle))
        SELECT DISTINCT account_post.post FROM bearer JOIN account_post USING (namespace, id)
        WHERE bearer.namespace = NEW.namespace AND bearer.id <> NEW.id ORDER BY 1
    LOOP
        UPDATE tweet SET author_name = (
            SELECT own.handle FROM account AS own
            WHERE own.namespace = NEW.namespace AND own.id = tweet.author_id
            AND own.handle <> '' AND lower(own.handle) <> lower(NEW.handle))
        WHERE namespace = posts AND id = of.post AND author_id <> NEW.id AND lower(author_name) = lower(NEW.handle);
    END LOOP;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER account_takes_handle AFTER UPDATE OF handle ON account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.handle <> '' AND NEW.handle IS DISTINCT FROM OLD.handle) EXECUTE FUNCTION account_takes_handle();

CREATE CONSTRAINT TRIGGER account_takes_first_handle AFTER INSERT ON account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.handle <> '') EXECUTE FUNCTION account_takes_handle();

CREATE FUNCTION media_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE media_room SET bytes = media_room.bytes + COALESCE(NEW.bytes, 0) - COALESCE(OLD.bytes, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER media_room AFTER INSERT OR DELETE ON media_file FOR EACH ROW EXECUTE FUNCTION media_room();

-- The first sighting of an account is no change.
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
