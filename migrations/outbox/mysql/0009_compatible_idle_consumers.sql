-- Consumers that have no work with an event. `0001_baseline.sql` explains the collation and the form of statements.

-- A JSON array of the names of consumers to which the event is not delivered. NULL: it concerns every consumer of its type.
-- INSTANT changes no row.
ALTER TABLE outbox_events
    ADD COLUMN idle_consumers TEXT CHARACTER SET utf8mb4
        COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */,
    ALGORITHM = INSTANT;
