-- The key of the pseudonyms is in a file outside the database (forget.key_file): see store/pseudonyms.rs. `migrate` moves an older
-- key there, and drops forgotten_salt.

CREATE TABLE forgotten_key (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- one row, from the first forgotten person on
    fingerprint TEXT    NOT NULL                              -- tells the key from another one; the key cannot be computed from it
) STRICT;
