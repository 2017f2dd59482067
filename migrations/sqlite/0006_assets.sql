-- What an order may be paid with beside money, the ledger of all of it, and refunds.

ALTER TABLE orders ADD COLUMN coupon_id INTEGER;
ALTER TABLE orders ADD COLUMN coupon_minor INTEGER NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN wallet_minor INTEGER NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN points INTEGER NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN refund_id INTEGER;
CREATE INDEX idx_orders_updated ON orders (update_time, id);

CREATE TABLE coupons (
    id              INTEGER PRIMARY KEY,
    tenant_id       INTEGER NOT NULL,
    user_id         INTEGER NOT NULL,
    discount_minor  INTEGER NOT NULL,
    min_spend_minor INTEGER NOT NULL,
    expires_at      TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('AVAILABLE', 'LOCKED', 'USED', 'EXPIRED')),
    order_id        INTEGER,
    version         INTEGER NOT NULL,
    create_time     TEXT NOT NULL,
    update_time     TEXT NOT NULL
) STRICT;
CREATE INDEX idx_coupons_user ON coupons (tenant_id, user_id, id);
CREATE INDEX idx_coupons_expiry ON coupons (expires_at, id) WHERE status = 'AVAILABLE';

CREATE TABLE asset_holds (
    tenant_id   INTEGER NOT NULL,
    order_id    INTEGER NOT NULL,
    asset       TEXT NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points')),
    user_id     INTEGER NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    coupon_id   INTEGER,
    status      TEXT NOT NULL CHECK (status IN ('FROZEN', 'COMMITTED', 'RELEASED')),
    reverted    INTEGER NOT NULL CHECK (reverted IN (0, 1)),
    version     INTEGER NOT NULL,
    create_time TEXT NOT NULL,
    update_time TEXT NOT NULL,
    -- The order of assets is not that of their names.
    asset_no    INTEGER GENERATED ALWAYS AS (CASE asset WHEN 'coupon' THEN 0 WHEN 'wallet' THEN 1 ELSE 2 END) STORED,
    PRIMARY KEY (tenant_id, order_id, asset)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_holds_frozen ON asset_holds (create_time, order_id, asset_no) WHERE status = 'FROZEN';
CREATE INDEX idx_holds_user ON asset_holds (tenant_id, user_id, asset, order_id) WHERE status = 'FROZEN';

-- The marketplace's own accounts have no row here: every payment would wait for every other.
CREATE TABLE asset_balances (
    tenant_id   INTEGER NOT NULL,
    user_id     INTEGER NOT NULL,
    purse       TEXT NOT NULL CHECK (purse IN ('wallet', 'points')),
    available   INTEGER NOT NULL,
    frozen      INTEGER NOT NULL,
    debt        INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    update_time TEXT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, purse),
    CHECK (available >= 0 AND frozen >= 0 AND debt >= 0)
) STRICT, WITHOUT ROWID;

-- Operations and entries are only ever added to.
CREATE TABLE asset_operations (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    asset           TEXT NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points', 'cash')),
    kind            TEXT NOT NULL CHECK (kind IN ('DEPOSIT', 'GRANT', 'ISSUE', 'FREEZE', 'COMMIT', 'RELEASE', 'REVERT',
                    'EARN', 'UNEARN', 'CAPTURE', 'PAYOUT')),
    user_id         INTEGER NOT NULL,
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
CREATE INDEX idx_asset_operations_order ON asset_operations (tenant_id, order_id, id);

CREATE TABLE ledger_entries (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    account         TEXT NOT NULL CHECK (account IN ('wallet', 'wallet_hold', 'points', 'points_hold', 'points_debt',
                    'platform', 'gateway', 'points_issued')),
    user_id         INTEGER,
    amount          INTEGER NOT NULL,
    balance_after   INTEGER,
    create_time     TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_ledger_entries ON ledger_entries (tenant_id, idempotency_key, account);
CREATE INDEX idx_ledger_account ON ledger_entries (tenant_id, user_id, account, id);

CREATE TABLE refunds (
    id                INTEGER PRIMARY KEY,
    tenant_id         INTEGER NOT NULL,
    order_id          INTEGER NOT NULL,
    payment_id        INTEGER NOT NULL,
    amount_minor      INTEGER NOT NULL,
    currency          TEXT NOT NULL,
    cause             TEXT NOT NULL CHECK (cause IN ('buyer', 'operator', 'late_payment')),
    reason            TEXT NOT NULL,
    status            TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    attempts          INTEGER NOT NULL,
    next_attempt_time TEXT,
    last_error        TEXT,
    version           INTEGER NOT NULL,
    create_time       TEXT NOT NULL,
    update_time       TEXT NOT NULL
) STRICT;
CREATE INDEX idx_refunds_order ON refunds (tenant_id, order_id, id);
CREATE INDEX idx_refunds_due ON refunds (next_attempt_time, id) WHERE status = 'PROCESSING';
-- No more goes back than came.
CREATE UNIQUE INDEX idx_refunds_payment ON refunds (payment_id) WHERE status <> 'FAILED';
