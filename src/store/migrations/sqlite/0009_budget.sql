-- Corrections of an adaptive schedule's budget, and the queue's counts at that time, from which the next day is counted.
CREATE TABLE schedule_budget (
    namespace      TEXT    NOT NULL PRIMARY KEY, -- the pipeline, as in the queue: tweet:update
    corrected_at   INTEGER NOT NULL,             -- ms
    price          REAL    NOT NULL,             -- factor on the price of a call
    level          REAL    NOT NULL,             -- events of the average item, as a multiple of the model's
    calls          REAL    NOT NULL,             -- calls that were demanded
    table_calls    REAL    NOT NULL,             -- calls that the age table would have made
    events         REAL    NOT NULL,             -- events that answers showed
    average_events REAL    NOT NULL              -- events that average items would have had
) STRICT, WITHOUT ROWID;
