SELECT corrected_at, price, level, calls, table_calls, events, average_events FROM schedule_budget
WHERE namespace = $1
