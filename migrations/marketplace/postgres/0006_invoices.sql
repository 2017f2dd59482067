-- Monthly invoices of tenants (spec §2 "Invoice").
--
-- `complete_time` is set exactly in completed orders. A completed order does not change any more, so that its last change is
-- its completion. Programs of earlier versions complete orders without it: they MUST be stopped before this migration.
ALTER TABLE orders ADD COLUMN complete_time TIMESTAMPTZ(6);
UPDATE orders SET complete_time = update_time WHERE status = 'completed';
CREATE INDEX idx_orders_completed ON orders (tenant_id, complete_time, id) WHERE complete_time IS NOT NULL;

-- `period` is a month: `2026-02`.
CREATE TABLE invoices (
    id          BIGINT PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    period      VARCHAR(7) COLLATE "C" NOT NULL,
    fee_bps     BIGINT NOT NULL,
    order_count BIGINT NOT NULL,
    total_minor BIGINT NOT NULL,
    currency    VARCHAR(3) COLLATE "C" NOT NULL,
    status      VARCHAR(16) COLLATE "C" NOT NULL CHECK (status IN ('pending', 'paid', 'refunded')),
    trace_id    VARCHAR(64),
    traceparent TEXT,
    version     BIGINT NOT NULL,
    create_time TIMESTAMPTZ(6) NOT NULL,
    pay_time    TIMESTAMPTZ(6),
    update_time TIMESTAMPTZ(6) NOT NULL
);
CREATE UNIQUE INDEX uk_invoices_period ON invoices (tenant_id, period);
CREATE INDEX idx_invoices_tenant ON invoices (tenant_id, id);

-- A row is the fee of one order. An order is invoiced once.
CREATE TABLE invoice_lines (
    tenant_id     BIGINT NOT NULL,
    invoice_id    BIGINT NOT NULL,
    order_id      BIGINT NOT NULL,
    total_minor   BIGINT NOT NULL,
    fee_minor     BIGINT NOT NULL,
    complete_time TIMESTAMPTZ(6) NOT NULL,
    PRIMARY KEY (invoice_id, order_id)
);
CREATE UNIQUE INDEX uk_invoice_lines_order ON invoice_lines (order_id);

-- The month of this migration: the first one that is invoiced, unless `invoice.from` is set.
CREATE TABLE invoice_start (
    first_period VARCHAR(7) COLLATE "C" NOT NULL
);
INSERT INTO invoice_start (first_period) VALUES (to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'));

-- A payment, capture or refund belongs to an order or to an invoice.
ALTER TABLE payments
    ALTER COLUMN order_id DROP NOT NULL,
    ADD COLUMN invoice_id BIGINT,
    ADD CONSTRAINT payments_payable CHECK ((order_id IS NULL) <> (invoice_id IS NULL));
CREATE UNIQUE INDEX uk_payments_processing_invoice ON payments (invoice_id)
    WHERE status = 'PROCESSING' AND invoice_id IS NOT NULL;
CREATE INDEX idx_payments_invoice ON payments (invoice_id, id) WHERE invoice_id IS NOT NULL;
ALTER TABLE payment_captures
    ALTER COLUMN order_id DROP NOT NULL,
    ADD COLUMN invoice_id BIGINT,
    ADD CONSTRAINT payment_captures_payable CHECK ((order_id IS NULL) <> (invoice_id IS NULL));
CREATE INDEX idx_payment_captures_invoice ON payment_captures (invoice_id, payment_id, capture_no)
    WHERE invoice_id IS NOT NULL;
ALTER TABLE refunds
    ALTER COLUMN order_id DROP NOT NULL,
    ADD COLUMN invoice_id BIGINT,
    ADD CONSTRAINT refunds_payable CHECK ((order_id IS NULL) <> (invoice_id IS NULL));
CREATE INDEX idx_refunds_invoice ON refunds (invoice_id, id) WHERE invoice_id IS NOT NULL;
-- A report about an unknown payment or refund has neither.
ALTER TABLE gateway_reports
    ADD COLUMN invoice_id BIGINT,
    ADD CONSTRAINT gateway_reports_payable CHECK (order_id IS NULL OR invoice_id IS NULL);
CREATE INDEX idx_gateway_reports_invoice ON gateway_reports (invoice_id, id) WHERE invoice_id IS NOT NULL;
-- The money of an invoice belongs to a tenant, not to a user.
ALTER TABLE asset_operations
    ALTER COLUMN user_id DROP NOT NULL,
    ADD CONSTRAINT asset_operations_user CHECK (user_id IS NOT NULL OR asset = 'cash');
