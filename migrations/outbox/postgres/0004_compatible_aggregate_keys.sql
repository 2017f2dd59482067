-- Text keys of aggregates, and sequence numbers that the store assigns.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- Text key of the aggregate; NULL if its id is an integer. `aggregate_id` of a text key is its hash: the first 8 bytes of
-- the SHA-256, with the highest bit set. Existing rows meet the constraint, so that they need not be read (NOT VALID).
ALTER TABLE outbox_events ADD COLUMN aggregate_key TEXT COLLATE "C";
ALTER TABLE outbox_events ADD CONSTRAINT ck_aggregate_key
    CHECK (aggregate_key IS NULL OR (aggregate_id < 0 AND octet_length(aggregate_key) BETWEEN 1 AND 255)) NOT VALID;
ALTER TABLE event_consume_log ADD COLUMN aggregate_key TEXT COLLATE "C";

-- A row has the last sequence number that the store assigned to an event of one aggregate. Its lock orders concurrent
-- transactions, so that the order of the numbers is the order of the commits. The aggregates of two text keys with one
-- hash share a row. The low fillfactor leaves space on each page for HOT updates.
CREATE TABLE outbox_sequences (
    aggregate_type VARCHAR(64) COLLATE "C" NOT NULL,
    aggregate_id   BIGINT NOT NULL,
    tenant_id      BIGINT NOT NULL,
    seq            BIGINT NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id, tenant_id)
) WITH (fillfactor = 70);
