-- The lock that an insert takes as well: see hold_pages.pg.sql.
LOCK TABLE list_account IN ROW EXCLUSIVE MODE
