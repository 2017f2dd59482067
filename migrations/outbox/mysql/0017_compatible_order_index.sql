-- The order gate of a consumer finds the newest events of an aggregate with many events. Other transactions read and write the
-- table while the index is built.
ALTER TABLE outbox_events ADD KEY idx_aggregate_order (aggregate_type, aggregate_id, tenant_id, aggregate_seq),
    ALGORITHM = INPLACE, LOCK = NONE;
