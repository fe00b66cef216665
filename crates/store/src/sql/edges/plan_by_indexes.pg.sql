-- With these settings the planner reads changes in the order of their index of time, and all else by its key. Without
-- statistics, as after a first crawl, it expects few edges in any period, and would read and sort all for each page.
SELECT set_config(name, 'off', true)
FROM UNNEST(
    ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_sort']
) AS of (name)
