-- Times of the messages of the database broker.

-- Time at which the message entered its queue. NULL in rows of processes without this column.
-- `0003_compatible_event_types.sql` explains why there is no ALTER TABLE.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', enqueued_at TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_broker_messages' AND sql LIKE '%) STRICT';
PRAGMA writable_schema = RESET;
SELECT enqueued_at FROM outbox_broker_messages LIMIT 0;
-- Changes the version of the schema.
CREATE VIEW outbox_schema_changed AS SELECT 1;
DROP VIEW outbox_schema_changed;
