-- People who are kept away: see store/forget.rs. Of each there is a hash alone, salted so that nobody who has this table can try
-- ids against it without the salt beside it.

CREATE TABLE forgotten_person (
    hash TEXT COLLATE "C" PRIMARY KEY,
    at   BIGINT NOT NULL
);

COMMENT ON TABLE forgotten_person IS 'People of whom nothing is stored any more (forget account)';
COMMENT ON COLUMN forgotten_person.hash IS 'HMAC-SHA-256 of the network and the id of the account, in hexadecimal digits';
COMMENT ON COLUMN forgotten_person.at IS 'Since when, ms since the epoch';

CREATE TABLE forgotten_salt (
    one   BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
    inner_pad BYTEA NOT NULL,
    outer_pad BYTEA NOT NULL
);

COMMENT ON TABLE forgotten_salt IS 'One row: the key of these hashes, drawn when the table was made, as HMAC wants it';

DO $$
DECLARE
    key       BYTEA := sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));
    inner_pad BYTEA := decode(repeat('36', 64), 'hex');
    outer_pad BYTEA := decode(repeat('5c', 64), 'hex');
BEGIN
    FOR at IN 0..31 LOOP
        inner_pad := set_byte(inner_pad, at, get_byte(inner_pad, at) # get_byte(key, at));
        outer_pad := set_byte(outer_pad, at, get_byte(outer_pad, at) # get_byte(key, at));
    END LOOP;
    INSERT INTO forgotten_salt (inner_pad, outer_pad) VALUES (inner_pad, outer_pad);
END $$;

CREATE FUNCTION person_hash(network TEXT, account TEXT) RETURNS TEXT LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(outer_pad || sha256(inner_pad || convert_to(network || ' ' || account, 'UTF8'))), 'hex')
    FROM forgotten_salt
$$;

-- STABLE: it sees what the statement sees that calls it. Not in plain SQL, which PostgreSQL plans anew for each row that has a
-- sub-select.
CREATE FUNCTION is_forgotten(network TEXT, account TEXT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN network IS NOT NULL AND account IS NOT NULL AND EXISTS (SELECT FROM forgotten_person WHERE hash = (
        SELECT encode(sha256(outer_pad || sha256(inner_pad || convert_to(network || ' ' || account, 'UTF8'))), 'hex')
        FROM forgotten_salt));
END $$;
