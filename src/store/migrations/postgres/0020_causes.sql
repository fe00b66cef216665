-- Ids that a crawl could not read on any of its pages: see pipelines/relations/handler.rs. And the causes of ends, anew.

-- A statement that reads a table for long (a dump) would hold up the column, and it everybody else: given up rather than waited
-- for, so that it can be run again later.
SET LOCAL lock_timeout = '10s';

-- The cause of an end is the state in which the member's profile was then, or to which it came within a week (604,800,000 ms):
-- profiles of accounts that are away are looked up once a week. The first state of a profile is no change; it holds since the
-- first miss. "unfollowed" needs an answer since that found the account, before any that did not. New counts tell of one; a miss
-- that is not believed yet has dated the profile, and tells of none.
CREATE OR REPLACE VIEW edge AS
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

-- Last: whoever uses the table waits for it.
ALTER TABLE list_crawl ADD COLUMN unreadable BIGINT NOT NULL DEFAULT 0;

COMMENT ON COLUMN list_crawl.unreadable IS 'Ids on its pages that could not be read';
