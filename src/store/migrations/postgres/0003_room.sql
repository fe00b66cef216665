-- Nearly every answer brings another raw object, since its author's counts have moved. Kept beside the table (TOAST),
-- each one is written under two indexes of its own and leaves as much behind for the next vacuum. In the row it goes
-- where the row goes; and with a row's room left free in each page, the new version of a row finds its place
-- beside the old one, touches no index, and makes way for the next without a vacuum. What is in the table already moves
-- with its next answers. The figures: docs/performance.md.
ALTER TABLE tweet SET (toast_tuple_target = 4080, fillfactor = 60);

-- A third of pglz's time. A server that does not know it goes on with pglz.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE tweet ALTER COLUMN raw SET COMPRESSION lz4';
EXCEPTION
    WHEN feature_not_supported OR syntax_error THEN NULL;
END
$$;
