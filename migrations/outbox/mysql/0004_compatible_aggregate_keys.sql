-- Text keys of aggregates, and sequence numbers that the store assigns. `0001_baseline.sql` explains the collation and
-- the form of statements.

-- Text key of the aggregate; NULL if its id is an integer. `aggregate_id` of a text key is its hash: the first 8 bytes of
-- the SHA-256, with the highest bit set. INSTANT changes no row.
ALTER TABLE outbox_events
    ADD COLUMN aggregate_key VARCHAR(255) CHARACTER SET utf8mb4
        COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */,
    ALGORITHM = INSTANT;
ALTER TABLE event_consume_log
    ADD COLUMN aggregate_key VARCHAR(255) CHARACTER SET utf8mb4
        COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */,
    ALGORITHM = INSTANT;

-- A row has the last sequence number that the store assigned to an event of one aggregate. Its lock orders concurrent
-- transactions, so that the order of the numbers is the order of the commits. The aggregates of two text keys with one
-- hash share a row.
CREATE TABLE outbox_sequences (
    aggregate_type VARCHAR(64) NOT NULL,
    aggregate_id   BIGINT NOT NULL,
    tenant_id      BIGINT NOT NULL,
    seq            BIGINT NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id, tenant_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
