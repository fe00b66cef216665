INSERT INTO schedule_budget (namespace, corrected_at, price, level, calls, table_calls, events, average_events)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (namespace) DO UPDATE SET
    corrected_at = excluded.corrected_at, price = excluded.price, level = excluded.level, calls = excluded.calls,
    table_calls = excluded.table_calls, events = excluded.events, average_events = excluded.average_events
WHERE schedule_budget.corrected_at = $9
RETURNING corrected_at
