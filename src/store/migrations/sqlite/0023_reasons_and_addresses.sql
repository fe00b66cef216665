-- Why an item is missing, as the network states it: not_found, deactivated, deleted, suspended or not_authorized; NULL: it states nothing, or the item is
-- not missing.
ALTER TABLE tweet ADD COLUMN missing_reason TEXT;

ALTER TABLE tweet ADD COLUMN reply_to_author TEXT; -- the id of the account that it replies to
ALTER TABLE tweet ADD COLUMN labels TEXT; -- labels of the post and of its author, comma separated

-- Both are read out of the objects that are stored.
WITH RECURSIVE known (namespace) AS (
    SELECT MIN(namespace) FROM tweet
    UNION ALL
    SELECT (SELECT MIN(namespace) FROM tweet WHERE namespace > known.namespace) FROM known WHERE known.namespace IS NOT NULL
)
INSERT INTO tweet_fill SELECT namespace, '' FROM known WHERE namespace IS NOT NULL
ON CONFLICT (namespace) DO UPDATE SET after_id = '';

-- The version before stored the short link (t.co) of a profile of Twitter or X. Another short link, or the address in full, is no
-- change of the address.
DROP TRIGGER account_changes;
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

-- A handle moves from one account to another. The posts of an account that bore it before are then under that account's other handle,
-- or under none while that is not known.
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
