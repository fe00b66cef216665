-- A long read of this table (a dump) would block the migration, and the migration would block all other statements. So it stops after
-- 10 s; run it again.
SET LOCAL lock_timeout = '10s';

ALTER TABLE tweet ADD COLUMN missing_reason TEXT;

COMMENT ON COLUMN tweet.missing_reason IS 'Why it is missing, as the network states it: not_found, deactivated, deleted, suspended or not_authorized; NULL: it states nothing, or it is not missing';

ALTER TABLE tweet ADD COLUMN reply_to_author TEXT;
ALTER TABLE tweet ADD COLUMN labels TEXT;

COMMENT ON COLUMN tweet.reply_to_author IS 'The id of the account that it replies to';
COMMENT ON COLUMN tweet.labels IS 'Labels of the post and of its author, comma separated';

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
CREATE OR REPLACE FUNCTION account_changes() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- A handle moves from one account to another. The posts of an account that had it before are then under that account's other handle,
-- or under none while that is not known. The triggers run at the commit, when all accounts of a batch are stored. They run for each
-- account, often while the tables grow faster than their statistics. So the two indexes of handles find the accounts that had the handle,
-- also without statistics.
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
