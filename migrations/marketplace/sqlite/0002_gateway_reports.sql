-- Captures, references and the reports of the payment gateway (spec §2 "Gateway reports").
--
-- SQLite cannot change a CHECK constraint: `refunds` and `ledger_entries` are copied to new tables.

-- A version 4 UUID (RFC 9562) as text; NULL if an earlier version wrote the row.
ALTER TABLE payments ADD COLUMN reference TEXT;
UPDATE payments SET reference =
    lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
    || substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)));
CREATE UNIQUE INDEX uk_payments_reference ON payments (reference);

-- A row is the money that the gateway captured in one of its transactions. A payment can be captured more than once.
CREATE TABLE payment_captures (
    tenant_id      INTEGER NOT NULL,
    order_id       INTEGER NOT NULL,
    payment_id     INTEGER NOT NULL,
    capture_no     INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    amount_minor   INTEGER NOT NULL,
    refund_due     INTEGER NOT NULL CHECK (refund_due IN (0, 1)),
    in_suspense    INTEGER NOT NULL CHECK (in_suspense IN (0, 1)),
    create_time    TEXT NOT NULL,
    PRIMARY KEY (payment_id, capture_no)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX uk_payment_captures_transaction ON payment_captures (transaction_id);
CREATE INDEX idx_payment_captures_order ON payment_captures (tenant_id, order_id, payment_id, capture_no);
INSERT INTO payment_captures (tenant_id, order_id, payment_id, capture_no, transaction_id, amount_minor, refund_due,
    in_suspense, create_time)
SELECT tenant_id, order_id, id, 1, transaction_id, amount_minor, refund_due, 0, update_time
FROM payments WHERE status = 'SUCCESS' AND transaction_id IS NOT NULL;

CREATE TABLE refunds_0002 (
    id                INTEGER PRIMARY KEY,
    tenant_id         INTEGER NOT NULL,
    order_id          INTEGER NOT NULL,
    payment_id        INTEGER NOT NULL,
    capture_no        INTEGER NOT NULL DEFAULT 1,
    reference         TEXT,
    -- Whether the key towards the gateway is `refund:{id}`, as in earlier versions.
    keyed_by_id       INTEGER NOT NULL DEFAULT 1 CHECK (keyed_by_id IN (0, 1)),
    attempt_no        INTEGER NOT NULL DEFAULT 1,
    amount_minor      INTEGER NOT NULL,
    currency          TEXT NOT NULL,
    cause             TEXT NOT NULL
                      CHECK (cause IN ('buyer', 'operator', 'late_payment', 'second_capture', 'wrong_amount')),
    reason            TEXT NOT NULL,
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
INSERT INTO refunds_0002 (id, tenant_id, order_id, payment_id, reference, amount_minor, currency, cause, reason, status,
    settled_attempt, payouts, attempts, next_attempt_time, last_error, trace_id, traceparent, version, create_time,
    update_time)
SELECT id, tenant_id, order_id, payment_id,
    lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
    || substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
    amount_minor, currency, cause, reason, status,
    CASE status WHEN 'SUCCESS' THEN 1 END, CASE status WHEN 'SUCCESS' THEN 1 ELSE 0 END,
    attempts, next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time
FROM refunds;
DROP TABLE refunds;
ALTER TABLE refunds_0002 RENAME TO refunds;
CREATE UNIQUE INDEX uk_refunds_reference ON refunds (reference);
CREATE INDEX idx_refunds_order ON refunds (tenant_id, order_id, id);
CREATE INDEX idx_refunds_due ON refunds (next_attempt_time, id) WHERE status = 'PROCESSING';
CREATE INDEX idx_refunds_page ON refunds (tenant_id, status, id);
CREATE INDEX idx_refunds_tenant ON refunds (tenant_id, id);
-- Operators list the refunds that are FAILED. These are few, so the index stays small.
CREATE INDEX idx_refunds_failed ON refunds (id) WHERE status = 'FAILED';
-- At most one refund of a capture is not FAILED, so that at most the captured amount is refunded. A refund is in excess
-- if another one has already returned the same money.
CREATE UNIQUE INDEX uk_refunds_capture ON refunds (payment_id, capture_no) WHERE status <> 'FAILED' AND excess = 0;

-- A row is an attempt at a refund that an operator's retry replaced.
CREATE TABLE refund_attempts (
    reference  TEXT PRIMARY KEY,
    refund_id  INTEGER NOT NULL,
    attempt_no INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_entries_0002 (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    account         TEXT NOT NULL CHECK (account IN ('wallet', 'wallet_hold', 'points', 'points_hold', 'points_debt',
                    'platform', 'suspense', 'gateway', 'points_issued')),
    user_id         INTEGER,
    amount          INTEGER NOT NULL,
    balance_after   INTEGER,
    create_time     TEXT NOT NULL
) STRICT;
INSERT INTO ledger_entries_0002 (id, tenant_id, idempotency_key, account, user_id, amount, balance_after, create_time)
SELECT id, tenant_id, idempotency_key, account, user_id, amount, balance_after, create_time FROM ledger_entries;
-- The new table continues the sequence of the old one, even if its last rows were deleted.
DELETE FROM sqlite_sequence WHERE name = 'ledger_entries_0002';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'ledger_entries_0002', seq FROM sqlite_sequence WHERE name = 'ledger_entries';
DROP TABLE ledger_entries;
ALTER TABLE ledger_entries_0002 RENAME TO ledger_entries;
CREATE UNIQUE INDEX uk_ledger_entries ON ledger_entries (tenant_id, idempotency_key, account);
CREATE INDEX idx_ledger_account ON ledger_entries (tenant_id, user_id, account, id);

-- A row is a report of the payment gateway whose signature is valid.
CREATE TABLE gateway_reports (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    report_key     TEXT NOT NULL,
    kind           TEXT NOT NULL CHECK (kind IN ('payment', 'refund')),
    tenant_id      INTEGER,
    order_id       INTEGER,
    payment_id     INTEGER,
    refund_id      INTEGER,
    attempt_no     INTEGER,
    -- As reported, also if it names nothing.
    reference      TEXT,
    transaction_id TEXT,
    result         TEXT,
    amount_minor   INTEGER,
    body_hash      TEXT NOT NULL,
    error          TEXT,
    outcome        TEXT NOT NULL,
    answer         TEXT,
    state          TEXT NOT NULL CHECK (state IN ('DONE', 'OPEN', 'CLOSED')),
    trace_id       TEXT NOT NULL,
    create_time    TEXT NOT NULL,
    closed_by      TEXT,
    close_reason   TEXT,
    close_time     TEXT
) STRICT;
CREATE UNIQUE INDEX uk_gateway_reports_key ON gateway_reports (report_key);
CREATE INDEX idx_gateway_reports_order ON gateway_reports (tenant_id, order_id, id);
CREATE INDEX idx_gateway_reports_tenant ON gateway_reports (tenant_id, id);
-- Operators list the reports that are not DONE. These are few, so the indexes stay small.
CREATE INDEX idx_gateway_reports_state ON gateway_reports (state, id) WHERE state <> 'DONE';
CREATE INDEX idx_gateway_reports_page ON gateway_reports (tenant_id, state, id) WHERE state <> 'DONE';
