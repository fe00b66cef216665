-- People who are kept away: see store/forget.rs. Of each there is a hash alone, salted so that nobody who has this table can try
-- ids against it without the salt beside it.

CREATE TABLE forgotten_person (
    hash TEXT    NOT NULL PRIMARY KEY, -- HMAC-SHA-256 of the network and the id of the account, in hexadecimal digits
    at   INTEGER NOT NULL              -- since when, ms
) STRICT, WITHOUT ROWID;

CREATE TABLE forgotten_salt (
    one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- one row
    salt BLOB    NOT NULL                              -- the key of these hashes, drawn when the table was made
) STRICT;

INSERT INTO forgotten_salt VALUES (1, randomblob(32));
