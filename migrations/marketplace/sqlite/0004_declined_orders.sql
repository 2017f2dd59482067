-- Sellers decline orders: a refund with the cause `seller`, and whether the product goes off the shelf.
--
-- SQLite cannot change a CHECK constraint: `refunds` is copied to a new table.

CREATE TABLE refunds_0004 (
    id                INTEGER PRIMARY KEY,
    tenant_id         INTEGER NOT NULL,
    order_id          INTEGER NOT NULL,
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
    update_time       TEXT NOT NULL
) STRICT;
INSERT INTO refunds_0004 (id, tenant_id, order_id, payment_id, capture_no, reference, keyed_by_id, attempt_no, amount_minor,
    currency, cause, reason, status, settled_attempt, transaction_id, payouts, excess, settled_by, attempts,
    next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time)
SELECT id, tenant_id, order_id, payment_id, capture_no, reference, keyed_by_id, attempt_no, amount_minor,
    currency, cause, reason, status, settled_attempt, transaction_id, payouts, excess, settled_by, attempts,
    next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time
FROM refunds;
DROP TABLE refunds;
ALTER TABLE refunds_0004 RENAME TO refunds;
CREATE UNIQUE INDEX uk_refunds_reference ON refunds (reference);
CREATE INDEX idx_refunds_order ON refunds (tenant_id, order_id, id);
CREATE INDEX idx_refunds_due ON refunds (next_attempt_time, id) WHERE status = 'PROCESSING';
CREATE INDEX idx_refunds_page ON refunds (tenant_id, status, id);
CREATE INDEX idx_refunds_tenant ON refunds (tenant_id, id);
CREATE INDEX idx_refunds_failed ON refunds (id) WHERE status = 'FAILED';
CREATE UNIQUE INDEX uk_refunds_capture ON refunds (payment_id, capture_no) WHERE status <> 'FAILED' AND excess = 0;
