-- `0011_compatible_erasure.sql` explains the timeout.
SET LOCAL lock_timeout = '2s';

-- The order gate of a consumer finds the newest events of an aggregate with many events. Most aggregates have few: their rows are
-- not in this index. PostgreSQL reads the table once to build it, and writes to the table wait meanwhile.
CREATE INDEX idx_aggregate_order ON outbox_events (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id)
    WHERE aggregate_seq >= 64;
