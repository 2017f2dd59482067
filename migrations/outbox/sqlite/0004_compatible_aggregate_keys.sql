-- Text keys of aggregates. Sequence numbers need no table on an engine with one writer.

-- Text key of the aggregate; NULL if its id is an integer. `aggregate_id` of a text key is its hash: the first 8 bytes of
-- the SHA-256, with the highest bit set. `0003_compatible_event_types.sql` explains why there is no ALTER TABLE.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', aggregate_key TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_events' AND sql LIKE '%) STRICT';
-- Columns precede the constraints of a table.
UPDATE sqlite_schema SET sql = replace(sql, ' UNIQUE (', ' aggregate_key TEXT, UNIQUE (')
WHERE type = 'table' AND name = 'event_consume_log';
PRAGMA writable_schema = RESET;
SELECT aggregate_key FROM outbox_events LIMIT 0;
SELECT aggregate_key FROM event_consume_log LIMIT 0;
-- Changes the version of the schema.
CREATE VIEW outbox_schema_changed AS SELECT 1;
DROP VIEW outbox_schema_changed;
