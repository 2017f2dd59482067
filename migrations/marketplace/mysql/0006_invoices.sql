-- Monthly invoices of tenants (spec §2 "Invoice"). `0001_baseline.sql` explains the collation and the form of statements.
--
-- `complete_time` is set exactly in completed orders. A completed order does not change any more, so that its last change is
-- its completion. Programs of earlier versions complete orders without it: they MUST be stopped before this migration.
ALTER TABLE orders ADD COLUMN complete_time DATETIME(6);
UPDATE orders SET complete_time = update_time WHERE status = 'completed' AND complete_time IS NULL;
CREATE INDEX idx_orders_completed ON orders (tenant_id, complete_time, id);

-- `period` is a month: `2026-02`.
CREATE TABLE invoices (
    id          BIGINT NOT NULL PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    period      VARCHAR(7) NOT NULL,
    fee_bps     BIGINT NOT NULL,
    order_count BIGINT NOT NULL,
    total_minor BIGINT NOT NULL,
    currency    VARCHAR(3) NOT NULL,
    status      VARCHAR(16) NOT NULL CHECK (status IN ('pending', 'paid', 'refunded')),
    trace_id    VARCHAR(64),
    traceparent TEXT,
    version     BIGINT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    pay_time    DATETIME(6),
    update_time DATETIME(6) NOT NULL,
    UNIQUE KEY uk_invoices_period (tenant_id, period),
    KEY idx_invoices_tenant (tenant_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the fee of one order. An order is invoiced once.
CREATE TABLE invoice_lines (
    tenant_id     BIGINT NOT NULL,
    invoice_id    BIGINT NOT NULL,
    order_id      BIGINT NOT NULL,
    total_minor   BIGINT NOT NULL,
    fee_minor     BIGINT NOT NULL,
    complete_time DATETIME(6) NOT NULL,
    PRIMARY KEY (invoice_id, order_id),
    UNIQUE KEY uk_invoice_lines_order (order_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The month of this migration: the first one that is invoiced, unless `invoice.from` is set.
CREATE TABLE invoice_start (
    first_period VARCHAR(7) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
INSERT INTO invoice_start (first_period)
SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m') FROM (SELECT 1 AS one) AS missing
WHERE NOT EXISTS (SELECT 1 FROM invoice_start);

-- A payment, capture or refund belongs to an order or to an invoice.
ALTER TABLE payments
    MODIFY COLUMN order_id BIGINT,
    ADD COLUMN invoice_id BIGINT,
    ADD COLUMN processing_invoice BIGINT
        GENERATED ALWAYS AS (CASE WHEN status = 'PROCESSING' THEN invoice_id END) STORED,
    ADD UNIQUE KEY uk_payments_processing_invoice (processing_invoice),
    ADD KEY idx_payments_invoice (invoice_id, id),
    ADD CONSTRAINT payments_payable CHECK ((order_id IS NULL) <> (invoice_id IS NULL));
ALTER TABLE payment_captures
    MODIFY COLUMN order_id BIGINT,
    ADD COLUMN invoice_id BIGINT,
    ADD KEY idx_payment_captures_invoice (invoice_id, payment_id, capture_no),
    ADD CONSTRAINT payment_captures_payable CHECK ((order_id IS NULL) <> (invoice_id IS NULL));
ALTER TABLE refunds
    MODIFY COLUMN order_id BIGINT,
    ADD COLUMN invoice_id BIGINT,
    ADD KEY idx_refunds_invoice (invoice_id, id),
    ADD CONSTRAINT refunds_payable CHECK ((order_id IS NULL) <> (invoice_id IS NULL));
-- A report about an unknown payment or refund has neither.
ALTER TABLE gateway_reports
    ADD COLUMN invoice_id BIGINT,
    ADD KEY idx_gateway_reports_invoice (invoice_id, id),
    ADD CONSTRAINT gateway_reports_payable CHECK (order_id IS NULL OR invoice_id IS NULL);
-- The money of an invoice belongs to a tenant, not to a user.
ALTER TABLE asset_operations
    MODIFY COLUMN user_id BIGINT,
    ADD CONSTRAINT asset_operations_user CHECK (user_id IS NOT NULL OR asset = 'cash');
