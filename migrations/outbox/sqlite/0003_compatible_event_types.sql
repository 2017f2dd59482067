-- Routing keys of outbox rows, and the event types that consumers have registered.

-- Routing key with which the event is published, also by a relay that does not know the type. NULL: the routing key of
-- the registered type.
--
-- ALTER TABLE ... ADD COLUMN would check every row, because the table is STRICT and has CHECK constraints: 95 s for
-- 10 million rows. Therefore the column is added to the text of the schema. No row changes: a row with fewer values has
-- NULL in the last columns. Other connections read the schema again when its version changes, as by CREATE TABLE. If the
-- column was not added, the query fails, and the migration is rolled back.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', routing_key TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_events' AND sql LIKE '%) STRICT';
PRAGMA writable_schema = RESET;
SELECT routing_key FROM outbox_events LIMIT 0;

-- A row is an event type that running processes apply for a consumer. Processes of other versions leave events of this
-- type to them.
CREATE TABLE outbox_consumer_types (
    consumer    TEXT NOT NULL,
    event_type  TEXT NOT NULL,
    alive_until TEXT NOT NULL,
    PRIMARY KEY (consumer, event_type)
) STRICT;
