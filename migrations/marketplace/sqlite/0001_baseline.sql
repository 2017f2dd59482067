-- Tables of the marketplace. Amounts of money are in minor units.
--
-- Times are TEXT in the format `YYYY-MM-DDTHH:MM:SS.ffffffZ` (UTC), so that their text order is their time order.

CREATE TABLE products (
    id          INTEGER PRIMARY KEY,
    tenant_id   INTEGER NOT NULL,
    seller_id   INTEGER NOT NULL,
    title       TEXT NOT NULL,
    price_minor INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('on_sale', 'sold', 'off_shelf')),
    version     INTEGER NOT NULL,
    create_time TEXT NOT NULL,
    update_time TEXT NOT NULL
) STRICT;
CREATE INDEX idx_products_page ON products (tenant_id, status, id);
CREATE INDEX idx_products_tenant ON products (tenant_id, id);

CREATE TABLE orders (
    id            INTEGER PRIMARY KEY,
    order_no      TEXT NOT NULL,
    tenant_id     INTEGER NOT NULL,
    product_id    INTEGER NOT NULL,
    buyer_id      INTEGER NOT NULL,
    seller_id     INTEGER NOT NULL,
    status        TEXT NOT NULL
                  CHECK (status IN ('pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded')),
    cancel_reason TEXT,
    total_minor   INTEGER NOT NULL,
    payable_minor INTEGER NOT NULL,
    coupon_id     INTEGER,
    coupon_minor  INTEGER NOT NULL DEFAULT 0,
    wallet_minor  INTEGER NOT NULL DEFAULT 0,
    points        INTEGER NOT NULL DEFAULT 0,
    refund_id     INTEGER,
    carrier       TEXT,
    tracking_no   TEXT,
    version       INTEGER NOT NULL,
    create_time   TEXT NOT NULL,
    pay_time      TEXT,
    update_time   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_orders_buyer ON orders (tenant_id, buyer_id, id);
CREATE INDEX idx_orders_seller ON orders (tenant_id, seller_id, id);
CREATE INDEX idx_orders_pending ON orders (create_time, id) WHERE status = 'pending';
CREATE INDEX idx_orders_updated ON orders (update_time, id);

CREATE TABLE payments (
    id             INTEGER PRIMARY KEY,
    tenant_id      INTEGER NOT NULL,
    order_id       INTEGER NOT NULL,
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
    update_time    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX idx_payments_processing ON payments (tenant_id, order_id) WHERE status = 'PROCESSING';
CREATE INDEX idx_payments_order ON payments (tenant_id, order_id, id);

-- A row contains the next free id of one kind. A process reserves a block of consecutive ids by increasing `next_id`.
CREATE TABLE id_blocks (
    kind    TEXT PRIMARY KEY,
    next_id INTEGER NOT NULL
) STRICT;

-- A row is the current state of a product in the listing of its seller, computed from `listing_changes`.
CREATE TABLE listings (
    tenant_id   INTEGER NOT NULL,
    seller_id   INTEGER NOT NULL,
    product_id  INTEGER NOT NULL,
    taken_by    INTEGER,
    event_id    TEXT NOT NULL,
    update_time TEXT NOT NULL,
    PRIMARY KEY (tenant_id, product_id, seller_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_listings_seller ON listings (tenant_id, seller_id, product_id);

-- The rows of `listing_changes`, `shipments`, `notifications` and `buyer_credit_changes` are effects of consumers. The
-- natural key of an effect, order and business fact, is unique, so that an effect is applied once even if several
-- events announce the fact (seed 004, Q5).
CREATE TABLE listing_changes (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    seller_id     INTEGER NOT NULL,
    product_id    INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('OCCUPIED', 'RELEASED')),
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
-- Consumers compute the row in `listings` from all changes of the product.
CREATE INDEX idx_listing_changes_product ON listing_changes (tenant_id, product_id);
CREATE UNIQUE INDEX uk_listing_changes ON listing_changes (tenant_id, order_id, kind);

-- A row is a shipment task for the seller of an order.
CREATE TABLE shipments (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    seller_id     INTEGER NOT NULL,
    buyer_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_shipments_seller ON shipments (tenant_id, seller_id, id);
CREATE INDEX idx_shipments_buyer ON shipments (tenant_id, buyer_id, id);
CREATE UNIQUE INDEX uk_shipments ON shipments (tenant_id, order_id);

-- A row is a notification to the buyer or the seller about a new status of an order.
CREATE TABLE notifications (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    user_id       INTEGER NOT NULL,
    side          TEXT NOT NULL CHECK (side IN ('buyer', 'seller')),
    order_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    old_status    TEXT NOT NULL,
    new_status    TEXT NOT NULL,
    changed_at    TEXT NOT NULL,
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_notifications_user ON notifications (tenant_id, user_id, id);
CREATE UNIQUE INDEX uk_notifications ON notifications (tenant_id, order_id, new_status, side);

CREATE TABLE buyer_credit_changes (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    buyer_id      INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    step          TEXT NOT NULL CHECK (step IN ('COMPLETED', 'CANCELLED_BY_BUYER', 'CANCELLED_BY_TIMEOUT')),
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_credit_changes ON buyer_credit_changes (tenant_id, order_id, step);

CREATE TABLE buyer_credit (
    tenant_id            INTEGER NOT NULL,
    buyer_id             INTEGER NOT NULL,
    completed            INTEGER NOT NULL,
    cancelled_by_buyer   INTEGER NOT NULL,
    cancelled_by_timeout INTEGER NOT NULL,
    score                INTEGER NOT NULL CHECK (score BETWEEN 0 AND 120),
    last_event_id        TEXT NOT NULL,
    update_time          TEXT NOT NULL,
    PRIMARY KEY (tenant_id, buyer_id)
) STRICT, WITHOUT ROWID;

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

-- A row is the hold of one asset for one order.
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
    -- Sort position of the asset: holds are sorted by coupon, wallet, points, which is not the alphabetical order.
    asset_no    INTEGER GENERATED ALWAYS AS (CASE asset WHEN 'coupon' THEN 0 WHEN 'wallet' THEN 1 ELSE 2 END) STORED,
    PRIMARY KEY (tenant_id, order_id, asset)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_holds_frozen ON asset_holds (create_time, order_id, asset_no) WHERE status = 'FROZEN';
CREATE INDEX idx_holds_user ON asset_holds (tenant_id, user_id, asset, order_id) WHERE status = 'FROZEN';

-- A row is the balance of a user in one purse. The accounts of the marketplace have no row, because every payment would
-- lock the same row, so that payments would run one after another.
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

-- A row is one operation on an asset. Its key is unique in the tenant, so that the operation takes effect once.
-- Operations and ledger entries are append-only.
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

-- A row is the amount of an operation on one account. The entries of an operation sum to zero.
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
    trace_id          TEXT,
    traceparent       TEXT,
    version           INTEGER NOT NULL,
    create_time       TEXT NOT NULL,
    update_time       TEXT NOT NULL
) STRICT;
CREATE INDEX idx_refunds_order ON refunds (tenant_id, order_id, id);
CREATE INDEX idx_refunds_due ON refunds (next_attempt_time, id) WHERE status = 'PROCESSING';
-- At most one refund of a payment is not FAILED, so that at most the captured amount is refunded.
CREATE UNIQUE INDEX idx_refunds_payment ON refunds (payment_id) WHERE status <> 'FAILED';

-- A row is a request with an idempotency key (spec §4): the claim of the attempt that executes the request, then the
-- stored response.
CREATE TABLE idempotency_keys (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    user_id         INTEGER NOT NULL,
    route           TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    body_hash       TEXT NOT NULL,
    token           TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS')),
    lease_until     TEXT,
    answer_status   INTEGER,
    answer          TEXT,
    trace_id        TEXT NOT NULL,
    create_time     TEXT NOT NULL,
    expire_time     TEXT NOT NULL,
    UNIQUE (tenant_id, user_id, route, idempotency_key)
) STRICT;
CREATE INDEX idx_idempotency_expire ON idempotency_keys (expire_time, id);
