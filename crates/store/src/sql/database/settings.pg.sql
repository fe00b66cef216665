-- Settings of a new connection. With `synchronous_commit = off` a server loses saved rows in a crash, after the queue
-- was updated: an ended post would be in neither. `local` is the weakest safe setting; stronger settings stay.
-- Without `jit` no statement is compiled: that takes up to a second, and is wasted if the planner expects far too
-- many rows.
SELECT set_config('statement_timeout', $1, false), set_config('jit', 'off', false),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'local', false) END
