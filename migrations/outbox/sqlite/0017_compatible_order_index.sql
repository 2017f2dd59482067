-- The order gate of a consumer finds the newest events of an aggregate with many events. Most aggregates have few: their rows are
-- not in this index.
CREATE INDEX idx_aggregate_order ON outbox_events (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id)
    WHERE aggregate_seq >= 64;
