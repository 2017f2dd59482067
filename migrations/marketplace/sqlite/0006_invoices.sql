-- Monthly invoices of tenants (spec §2 "Invoice").
--
-- `complete_time` is set exactly in completed orders. A completed order does not change any more, so that its last change is
-- its completion. Programs of earlier versions complete orders without it: they MUST be stopped before this migration.
ALTER TABLE orders ADD COLUMN complete_time TEXT;
UPDATE orders SET complete_time = update_time WHERE status = 'completed';
CREATE INDEX idx_orders_completed ON orders (tenant_id, complete_time, id) WHERE complete_time IS NOT NULL;

-- `period` is a month: `2026-02`.
CREATE TABLE invoices (
    id          INTEGER PRIMARY KEY,
    tenant_id   INTEGER NOT NULL,
    period      TEXT NOT NULL,
    fee_bps     INTEGER NOT NULL,
    order_count INTEGER NOT NULL,
    total_minor INTEGER NOT NULL,
    currency    TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'paid', 'refunded')),
    trace_id    TEXT,
    traceparent TEXT,
    version     INTEGER NOT NULL,
    create_time TEXT NOT NULL,
    pay_time    TEXT,
    update_time TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_invoices_period ON invoices (tenant_id, period);
CREATE INDEX idx_invoices_tenant ON invoices (tenant_id, id);

-- A row is the fee of one order. An order is invoiced once.
CREATE TABLE invoice_lines (
    tenant_id     INTEGER NOT NULL,
    invoice_id    INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    total_minor   INTEGER NOT NULL,
    fee_minor     INTEGER NOT NULL,
    complete_time TEXT NOT NULL,
    PRIMARY KEY (invoice_id, order_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX uk_invoice_lines_order ON invoice_lines (order_id);

-- The month of this migration: the first one that is invoiced, unless `invoice.from` is set.
CREATE TABLE invoice_start (
    first_period TEXT NOT NULL
) STRICT;
INSERT INTO invoice_start (first_period) VALUES (strftime('%Y-%m', 'now'));
