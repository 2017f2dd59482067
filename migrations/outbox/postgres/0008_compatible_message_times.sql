-- Times of the messages of the database broker.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- Time at which the message entered its queue. NULL in rows of processes without this column.
ALTER TABLE outbox_broker_messages ADD COLUMN enqueued_at TIMESTAMPTZ(6);
