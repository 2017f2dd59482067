-- Captures, references and the reports of the payment gateway (spec §2 "Gateway reports"). The rules for statements are
-- those of the baseline.
--
-- A CHECK constraint of a column belongs to the column on MariaDB, and is a named constraint of the table on MySQL.

-- The reference is a UUID as text; NULL if a process of an earlier version wrote the row.
ALTER TABLE payments
    ADD COLUMN reference VARCHAR(36),
    ADD UNIQUE KEY uk_payments_reference (reference);
UPDATE payments SET reference = UUID() WHERE reference IS NULL;

-- A row is the money that the gateway captured in one of its transactions. A payment can be captured more than once.
CREATE TABLE payment_captures (
    tenant_id      BIGINT NOT NULL,
    order_id       BIGINT NOT NULL,
    payment_id     BIGINT NOT NULL,
    capture_no     BIGINT NOT NULL,
    transaction_id VARCHAR(255) NOT NULL,
    amount_minor   BIGINT NOT NULL,
    refund_due     BIGINT NOT NULL CHECK (refund_due IN (0, 1)),
    in_suspense    BIGINT NOT NULL CHECK (in_suspense IN (0, 1)),
    create_time    DATETIME(6) NOT NULL,
    PRIMARY KEY (payment_id, capture_no),
    UNIQUE KEY uk_payment_captures_transaction (transaction_id),
    KEY idx_payment_captures_order (tenant_id, order_id, payment_id, capture_no)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
INSERT INTO payment_captures (tenant_id, order_id, payment_id, capture_no, transaction_id, amount_minor, refund_due,
    in_suspense, create_time)
SELECT p.tenant_id, p.order_id, p.id, 1, p.transaction_id, p.amount_minor, p.refund_due, 0, p.update_time
FROM payments p WHERE p.status = 'SUCCESS' AND p.transaction_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM payment_captures c WHERE c.payment_id = p.id);

-- `keyed_by_id`: whether the key towards the gateway is `refund:{id}`, as in earlier versions.
-- `refunded_payment`: at most one refund of a capture is not FAILED, so that at most the captured amount is refunded. A
-- refund is in excess if another one has already returned the same money.
-- One statement, so that the old unique key is replaced at once.
ALTER TABLE refunds
    DROP KEY uk_refunds_payment,
    DROP COLUMN repaid_payment,
    ADD COLUMN capture_no BIGINT NOT NULL DEFAULT 1,
    ADD COLUMN reference VARCHAR(36),
    ADD COLUMN keyed_by_id BIGINT NOT NULL DEFAULT 1 CHECK (keyed_by_id IN (0, 1)),
    ADD COLUMN attempt_no BIGINT NOT NULL DEFAULT 1,
    ADD COLUMN settled_attempt BIGINT,
    ADD COLUMN transaction_id VARCHAR(255),
    ADD COLUMN payouts BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN excess BIGINT NOT NULL DEFAULT 0 CHECK (excess IN (0, 1)),
    ADD COLUMN settled_by TEXT,
    ADD COLUMN refunded_payment BIGINT
        GENERATED ALWAYS AS (CASE WHEN status <> 'FAILED' AND excess = 0 THEN payment_id END) STORED,
    ADD UNIQUE KEY uk_refunds_capture (refunded_payment, capture_no),
    ADD UNIQUE KEY uk_refunds_reference (reference),
    ADD KEY idx_refunds_page (tenant_id, status, id),
    ADD KEY idx_refunds_tenant (tenant_id, id),
    ADD KEY idx_refunds_failed (status, id),
    /*M! MODIFY COLUMN cause VARCHAR(16) NOT NULL *//*!80017 DROP CHECK refunds_chk_1, ADD CONSTRAINT refunds_cause */
    CHECK (cause IN ('buyer', 'operator', 'late_payment', 'second_capture', 'wrong_amount'));
UPDATE refunds SET reference = UUID() WHERE reference IS NULL;
UPDATE refunds SET settled_attempt = 1, payouts = 1 WHERE status = 'SUCCESS' AND payouts = 0;

-- A row is an attempt at a refund that an operator's retry replaced.
CREATE TABLE refund_attempts (
    reference  VARCHAR(36) NOT NULL PRIMARY KEY,
    refund_id  BIGINT NOT NULL,
    attempt_no BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

ALTER TABLE ledger_entries
    /*M! MODIFY COLUMN account VARCHAR(16) NOT NULL *//*!80017 DROP CHECK ledger_entries_chk_1,
    ADD CONSTRAINT ledger_entries_account */
    CHECK (account IN ('wallet', 'wallet_hold', 'points', 'points_hold', 'points_debt', 'platform', 'suspense',
    'gateway', 'points_issued'));

-- A row is a report of the payment gateway whose signature is valid. `reference` is as reported, also if it names
-- nothing.
CREATE TABLE gateway_reports (
    id             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    report_key     VARCHAR(64) NOT NULL,
    kind           VARCHAR(16) NOT NULL CHECK (kind IN ('payment', 'refund')),
    tenant_id      BIGINT,
    order_id       BIGINT,
    payment_id     BIGINT,
    refund_id      BIGINT,
    attempt_no     BIGINT,
    reference      VARCHAR(64),
    transaction_id VARCHAR(255),
    result         VARCHAR(16),
    amount_minor   BIGINT,
    body_hash      VARCHAR(64) NOT NULL,
    error          MEDIUMTEXT,
    outcome        VARCHAR(32) NOT NULL,
    answer         VARCHAR(16),
    state          VARCHAR(16) NOT NULL CHECK (state IN ('DONE', 'OPEN', 'CLOSED')),
    trace_id       VARCHAR(64) NOT NULL,
    create_time    DATETIME(6) NOT NULL,
    closed_by      TEXT,
    close_reason   TEXT,
    close_time     DATETIME(6),
    UNIQUE KEY uk_gateway_reports_key (report_key),
    KEY idx_gateway_reports_order (tenant_id, order_id, id),
    KEY idx_gateway_reports_tenant (tenant_id, id),
    KEY idx_gateway_reports_state (state, id),
    KEY idx_gateway_reports_page (tenant_id, state, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- InnoDB locks every row that it reads: without this index, another program that locks the row of one buyer without naming
-- the tenant would hold back the effects of every buyer.
CREATE INDEX idx_buyer_credit_buyer ON buyer_credit (buyer_id);
