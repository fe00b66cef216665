-- Corrections of an adaptive schedule's budget, and the queue's counts at that time, from which the next day is counted.
CREATE TABLE schedule_budget (
    namespace      TEXT COLLATE "C" PRIMARY KEY,
    corrected_at   BIGINT NOT NULL,
    price          DOUBLE PRECISION NOT NULL,
    level          DOUBLE PRECISION NOT NULL,
    calls          DOUBLE PRECISION NOT NULL,
    table_calls    DOUBLE PRECISION NOT NULL,
    events         DOUBLE PRECISION NOT NULL,
    average_events DOUBLE PRECISION NOT NULL
);

COMMENT ON TABLE schedule_budget IS 'Corrections of an adaptive schedule''s budget, by pipeline, and the counts of its queue at that time';
COMMENT ON COLUMN schedule_budget.corrected_at IS 'Ms since the epoch';
COMMENT ON COLUMN schedule_budget.price IS 'Factor on the price of a call';
COMMENT ON COLUMN schedule_budget.level IS 'Events of the average item, as a multiple of those of the model';
COMMENT ON COLUMN schedule_budget.calls IS 'Calls that were demanded';
COMMENT ON COLUMN schedule_budget.table_calls IS 'Calls that the age table would have made';
COMMENT ON COLUMN schedule_budget.events IS 'Events that answers showed';
COMMENT ON COLUMN schedule_budget.average_events IS 'Events that average items would have had';
