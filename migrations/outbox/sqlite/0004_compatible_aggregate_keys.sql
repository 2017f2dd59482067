-- Text keys of aggregates. Sequence numbers need no table on an engine with one writer.

-- Text key of the aggregate; NULL if its id is an integer. `aggregate_id` of a text key is its hash: the first 8 bytes of
-- the SHA-256, with the highest bit set.
ALTER TABLE outbox_events ADD COLUMN aggregate_key TEXT;
ALTER TABLE event_consume_log ADD COLUMN aggregate_key TEXT;
