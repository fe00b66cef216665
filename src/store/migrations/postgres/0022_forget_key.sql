-- The key of the pseudonyms is in a file outside the database (forget.key_file): see store/pseudonyms.rs. `migrate` moves an older
-- key there, and drops forgotten_salt. is_forgotten stays for processes of the version before: once the key has moved, their
-- writes fail where a person is forgotten, and they store nothing of these people again.

CREATE TABLE forgotten_key (
    one         BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
    fingerprint TEXT COLLATE "C" NOT NULL
);

COMMENT ON TABLE forgotten_key IS 'One row, from the first forgotten person on';
COMMENT ON COLUMN forgotten_key.fingerprint IS 'Tells the key from another one; the key cannot be computed from it';

-- Of these people, by their pseudonyms (JSON), those that are forgotten. NULL: the process has not read its key yet. STABLE: it
-- sees what the statement sees that calls it.
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
