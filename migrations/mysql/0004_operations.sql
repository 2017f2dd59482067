-- What operators look at and do.

-- A FAILED event that was released holds back no later one of its aggregate.
ALTER TABLE outbox_events ADD COLUMN released_time DATETIME(6);

ALTER TABLE dead_letters ADD COLUMN decided_at DATETIME(6);
ALTER TABLE dead_letters ADD COLUMN note TEXT;
ALTER TABLE dead_letters ADD KEY idx_dead_letters_key (message_key);
ALTER TABLE dead_letters ADD KEY idx_dead_letters_tenant (tenant_id, id);
ALTER TABLE dead_letters ADD KEY idx_dead_letters_undecided (status, tenant_id);

-- Only ever added to. A trigger that refuses the rest needs rights which a server with a binary log gives to no
-- ordinary user: the user of the service is granted SELECT and INSERT here, and no more.
CREATE TABLE audit_log (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    actor       VARCHAR(255) NOT NULL,
    action      VARCHAR(64) NOT NULL,
    selection   LONGTEXT NOT NULL,
    changed     BIGINT NOT NULL CHECK (changed >= 0),
    reason      TEXT,
    trace_id    TEXT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    KEY idx_audit_tenant (tenant_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

ALTER TABLE payments ADD KEY idx_payments_order (tenant_id, order_id, id);
ALTER TABLE event_consume_log ADD KEY idx_consume_event (event_id);
ALTER TABLE event_consume_log ADD KEY idx_consume_open (status, id);
-- Counted without a look at the rows themselves.
ALTER TABLE event_consume_log ADD KEY idx_consume_count (consumer, status, tenant_id);
