-- Consumers that have no work with an event.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- A JSON array of the names of consumers to which the event is not delivered. NULL: it concerns every consumer of its type.
ALTER TABLE outbox_events ADD COLUMN idle_consumers TEXT COLLATE "C";
