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

-- A payment, capture or refund belongs to an order or to an invoice. SQLite can neither add a CHECK constraint nor remove
-- NOT NULL from a column: the tables are copied to new ones.
CREATE TABLE payments_0006 (
    id             INTEGER PRIMARY KEY,
    tenant_id      INTEGER NOT NULL,
    order_id       INTEGER,
    invoice_id     INTEGER,
    amount_minor   INTEGER NOT NULL,
    currency       TEXT NOT NULL,
    payment_method TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    transaction_id TEXT UNIQUE,
    refund_due     INTEGER NOT NULL CHECK (refund_due IN (0, 1)),
    trace_id       TEXT,
    traceparent    TEXT,
    version        INTEGER NOT NULL,
    create_time    TEXT NOT NULL,
    update_time    TEXT NOT NULL,
    reference      TEXT,
    CHECK ((order_id IS NULL) <> (invoice_id IS NULL))
) STRICT;
INSERT INTO payments_0006 (id, tenant_id, order_id, amount_minor, currency, payment_method, status, transaction_id, refund_due,
    trace_id, traceparent, version, create_time, update_time, reference)
SELECT id, tenant_id, order_id, amount_minor, currency, payment_method, status, transaction_id, refund_due,
    trace_id, traceparent, version, create_time, update_time, reference
FROM payments;
DROP TABLE payments;
ALTER TABLE payments_0006 RENAME TO payments;
CREATE UNIQUE INDEX idx_payments_processing ON payments (tenant_id, order_id)
    WHERE status = 'PROCESSING' AND order_id IS NOT NULL;
CREATE UNIQUE INDEX uk_payments_processing_invoice ON payments (invoice_id)
    WHERE status = 'PROCESSING' AND invoice_id IS NOT NULL;
CREATE INDEX idx_payments_order ON payments (tenant_id, order_id, id);
CREATE INDEX idx_payments_invoice ON payments (invoice_id, id) WHERE invoice_id IS NOT NULL;
CREATE UNIQUE INDEX uk_payments_reference ON payments (reference);

CREATE TABLE payment_captures_0006 (
    tenant_id      INTEGER NOT NULL,
    order_id       INTEGER,
    invoice_id     INTEGER,
    payment_id     INTEGER NOT NULL,
    capture_no     INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    amount_minor   INTEGER NOT NULL,
    refund_due     INTEGER NOT NULL CHECK (refund_due IN (0, 1)),
    in_suspense    INTEGER NOT NULL CHECK (in_suspense IN (0, 1)),
    create_time    TEXT NOT NULL,
    PRIMARY KEY (payment_id, capture_no),
    CHECK ((order_id IS NULL) <> (invoice_id IS NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO payment_captures_0006 (tenant_id, order_id, payment_id, capture_no, transaction_id, amount_minor, refund_due,
    in_suspense, create_time)
SELECT tenant_id, order_id, payment_id, capture_no, transaction_id, amount_minor, refund_due, in_suspense, create_time
FROM payment_captures;
DROP TABLE payment_captures;
ALTER TABLE payment_captures_0006 RENAME TO payment_captures;
CREATE UNIQUE INDEX uk_payment_captures_transaction ON payment_captures (transaction_id);
CREATE INDEX idx_payment_captures_order ON payment_captures (tenant_id, order_id, payment_id, capture_no);
CREATE INDEX idx_payment_captures_invoice ON payment_captures (invoice_id, payment_id, capture_no)
    WHERE invoice_id IS NOT NULL;

CREATE TABLE refunds_0006 (
    id                INTEGER PRIMARY KEY,
    tenant_id         INTEGER NOT NULL,
    order_id          INTEGER,
    invoice_id        INTEGER,
    payment_id        INTEGER NOT NULL,
    capture_no        INTEGER NOT NULL DEFAULT 1,
    reference         TEXT,
    keyed_by_id       INTEGER NOT NULL DEFAULT 1 CHECK (keyed_by_id IN (0, 1)),
    attempt_no        INTEGER NOT NULL DEFAULT 1,
    amount_minor      INTEGER NOT NULL,
    currency          TEXT NOT NULL,
    cause             TEXT NOT NULL
                      CHECK (cause IN ('buyer', 'seller', 'operator', 'late_payment', 'second_capture', 'wrong_amount')),
    reason            TEXT NOT NULL,
    off_shelf         INTEGER NOT NULL DEFAULT 0 CHECK (off_shelf IN (0, 1)),
    status            TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    settled_attempt   INTEGER,
    transaction_id    TEXT,
    payouts           INTEGER NOT NULL DEFAULT 0,
    excess            INTEGER NOT NULL DEFAULT 0 CHECK (excess IN (0, 1)),
    settled_by        TEXT,
    attempts          INTEGER NOT NULL,
    next_attempt_time TEXT,
    last_error        TEXT,
    trace_id          TEXT,
    traceparent       TEXT,
    version           INTEGER NOT NULL,
    create_time       TEXT NOT NULL,
    update_time       TEXT NOT NULL,
    CHECK ((order_id IS NULL) <> (invoice_id IS NULL))
) STRICT;
INSERT INTO refunds_0006 (id, tenant_id, order_id, payment_id, capture_no, reference, keyed_by_id, attempt_no, amount_minor,
    currency, cause, reason, off_shelf, status, settled_attempt, transaction_id, payouts, excess, settled_by, attempts,
    next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time)
SELECT id, tenant_id, order_id, payment_id, capture_no, reference, keyed_by_id, attempt_no, amount_minor,
    currency, cause, reason, off_shelf, status, settled_attempt, transaction_id, payouts, excess, settled_by, attempts,
    next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time
FROM refunds;
DROP TABLE refunds;
ALTER TABLE refunds_0006 RENAME TO refunds;
CREATE UNIQUE INDEX uk_refunds_reference ON refunds (reference);
CREATE INDEX idx_refunds_order ON refunds (tenant_id, order_id, id);
CREATE INDEX idx_refunds_invoice ON refunds (invoice_id, id) WHERE invoice_id IS NOT NULL;
CREATE INDEX idx_refunds_due ON refunds (next_attempt_time, id) WHERE status = 'PROCESSING';
CREATE INDEX idx_refunds_page ON refunds (tenant_id, status, id);
CREATE INDEX idx_refunds_tenant ON refunds (tenant_id, id);
CREATE INDEX idx_refunds_failed ON refunds (id) WHERE status = 'FAILED';
CREATE UNIQUE INDEX uk_refunds_capture ON refunds (payment_id, capture_no) WHERE status <> 'FAILED' AND excess = 0;

-- A report about an unknown payment or refund has neither.
ALTER TABLE gateway_reports ADD COLUMN invoice_id INTEGER CHECK (invoice_id IS NULL OR order_id IS NULL);
CREATE INDEX idx_gateway_reports_invoice ON gateway_reports (invoice_id, id) WHERE invoice_id IS NOT NULL;

-- The money of an invoice belongs to a tenant, not to a user.
CREATE TABLE asset_operations_0006 (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    asset           TEXT NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points', 'cash')),
    kind            TEXT NOT NULL CHECK (kind IN ('DEPOSIT', 'GRANT', 'ISSUE', 'FREEZE', 'COMMIT', 'RELEASE', 'REVERT',
                    'EARN', 'UNEARN', 'CAPTURE', 'PAYOUT')),
    user_id         INTEGER CHECK (user_id IS NOT NULL OR asset = 'cash'),
    order_id        INTEGER,
    refund_id       INTEGER,
    coupon_id       INTEGER,
    amount          INTEGER NOT NULL CHECK (amount >= 0),
    balance_after   INTEGER,
    event_id        TEXT,
    trace_id        TEXT,
    create_time     TEXT NOT NULL,
    UNIQUE (tenant_id, idempotency_key)
) STRICT;
INSERT INTO asset_operations_0006 (id, tenant_id, idempotency_key, asset, kind, user_id, order_id, refund_id, coupon_id, amount,
    balance_after, event_id, trace_id, create_time)
SELECT id, tenant_id, idempotency_key, asset, kind, user_id, order_id, refund_id, coupon_id, amount,
    balance_after, event_id, trace_id, create_time
FROM asset_operations;
-- The new table continues the sequence of the old one, even if its last rows were deleted.
DELETE FROM sqlite_sequence WHERE name = 'asset_operations_0006';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'asset_operations_0006', seq FROM sqlite_sequence WHERE name = 'asset_operations';
DROP TABLE asset_operations;
ALTER TABLE asset_operations_0006 RENAME TO asset_operations;
CREATE INDEX idx_asset_operations_order ON asset_operations (tenant_id, order_id, id);
