-- Consumers that have no work with an event.

-- A JSON array of the names of consumers to which the event is not delivered. NULL: it concerns every consumer of its type.
-- `0003_compatible_event_types.sql` explains why there is no ALTER TABLE.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', idle_consumers TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_events' AND sql LIKE '%) STRICT';
PRAGMA writable_schema = RESET;
SELECT idle_consumers FROM outbox_events LIMIT 0;
-- Changes the version of the schema.
CREATE VIEW outbox_schema_changed AS SELECT 1;
DROP VIEW outbox_schema_changed;
