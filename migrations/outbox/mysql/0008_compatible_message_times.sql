-- Times of the messages of the database broker. `0001_baseline.sql` explains the form of statements.

-- Time at which the message entered its queue. NULL in rows of processes without this column. INSTANT changes no row.
ALTER TABLE outbox_broker_messages ADD COLUMN enqueued_at DATETIME(6), ALGORITHM = INSTANT;
