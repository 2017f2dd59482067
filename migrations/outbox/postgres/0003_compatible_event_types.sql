-- Routing keys of outbox rows, and the event types that consumers have registered.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- Routing key with which the event is published, also by a relay that does not know the type. NULL: the routing key of
-- the registered type.
ALTER TABLE outbox_events ADD COLUMN routing_key VARCHAR(255) COLLATE "C";

-- A row is an event type that running processes apply for a consumer. Processes of other versions leave events of this
-- type to them. The low fillfactor leaves space on each page for HOT updates, because the lease is renewed continuously.
CREATE TABLE outbox_consumer_types (
    consumer    VARCHAR(64) COLLATE "C",
    event_type  VARCHAR(64) COLLATE "C",
    alive_until TIMESTAMPTZ(6) NOT NULL,
    PRIMARY KEY (consumer, event_type)
) WITH (fillfactor = 10);
