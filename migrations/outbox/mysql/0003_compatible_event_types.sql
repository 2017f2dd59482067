-- Routing keys of outbox rows, and the event types that consumers have registered. `0001_baseline.sql` explains the
-- collation and the form of statements.

-- Routing key with which the event is published, also by a relay that does not know the type. NULL: the routing key of
-- the registered type. INSTANT changes no row.
ALTER TABLE outbox_events
    ADD COLUMN routing_key VARCHAR(255) CHARACTER SET utf8mb4
        COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */,
    ALGORITHM = INSTANT;

-- A row is an event type that running processes apply for a consumer. Processes of other versions leave events of this
-- type to them.
CREATE TABLE outbox_consumer_types (
    consumer    VARCHAR(64) NOT NULL,
    event_type  VARCHAR(64) NOT NULL,
    alive_until DATETIME(6) NOT NULL,
    PRIMARY KEY (consumer, event_type)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
