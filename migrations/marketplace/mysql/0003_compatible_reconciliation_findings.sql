-- Findings of reconciliations. `tenant_id` is 0 if the compared row names no tenant, because a unique key does not compare
-- NULL. `row_id` is the id of the product, gateway report, dead letter or outbox row of a finding without an order.
-- `0001_baseline.sql` explains the collation and the form of statements.

CREATE TABLE reconciliation_findings (
    id               BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id        BIGINT NOT NULL,
    kind             VARCHAR(32) NOT NULL,
    subject          VARCHAR(512) NOT NULL,
    order_id         BIGINT,
    row_id           BIGINT,
    detail           TEXT NOT NULL,
    state            VARCHAR(16) NOT NULL CHECK (state IN ('OPEN', 'ACKNOWLEDGED', 'REPAIRED', 'RESOLVED')),
    first_seen       DATETIME(6) NOT NULL,
    last_seen        DATETIME(6) NOT NULL,
    acknowledged_by  TEXT,
    reason           TEXT,
    acknowledge_time DATETIME(6),
    closed_time      DATETIME(6),
    version          BIGINT NOT NULL,
    UNIQUE KEY uk_findings_subject (tenant_id, kind, subject),
    KEY idx_findings_kind (state, kind),
    KEY idx_findings_state (state, id),
    KEY idx_findings_tenant (tenant_id, id),
    KEY idx_findings_page (tenant_id, state, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
