-- Routing keys of outbox rows, and the event types that consumers have registered.

-- Routing key with which the event is published, also by a relay that does not know the type. NULL: the routing key of
-- the registered type.
ALTER TABLE outbox_events ADD COLUMN routing_key TEXT;

-- A row is an event type that running processes apply for a consumer. Processes of other versions leave events of this
-- type to them.
CREATE TABLE outbox_consumer_types (
    consumer    TEXT NOT NULL,
    event_type  TEXT NOT NULL,
    alive_until TEXT NOT NULL,
    PRIMARY KEY (consumer, event_type)
) STRICT;
