-- What an order may be paid with beside money, the ledger of all of it, and refunds.

ALTER TABLE orders ADD COLUMN coupon_id BIGINT;
ALTER TABLE orders ADD COLUMN coupon_minor BIGINT NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN wallet_minor BIGINT NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN points BIGINT NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN refund_id BIGINT;
ALTER TABLE orders ADD KEY idx_orders_updated (update_time, id);

CREATE TABLE coupons (
    id              BIGINT NOT NULL PRIMARY KEY,
    tenant_id       BIGINT NOT NULL,
    user_id         BIGINT NOT NULL,
    discount_minor  BIGINT NOT NULL,
    min_spend_minor BIGINT NOT NULL,
    expires_at      DATETIME(6) NOT NULL,
    status          VARCHAR(16) NOT NULL CHECK (status IN ('AVAILABLE', 'LOCKED', 'USED', 'EXPIRED')),
    order_id        BIGINT,
    version         BIGINT NOT NULL,
    create_time     DATETIME(6) NOT NULL,
    update_time     DATETIME(6) NOT NULL,
    KEY idx_coupons_user (tenant_id, user_id, id),
    KEY idx_coupons_expiry (status, expires_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE asset_holds (
    tenant_id   BIGINT NOT NULL,
    order_id    BIGINT NOT NULL,
    asset       VARCHAR(16) NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points')),
    user_id     BIGINT NOT NULL,
    amount      BIGINT NOT NULL CHECK (amount >= 0),
    coupon_id   BIGINT,
    status      VARCHAR(16) NOT NULL CHECK (status IN ('FROZEN', 'COMMITTED', 'RELEASED')),
    reverted    BIGINT NOT NULL CHECK (reverted IN (0, 1)),
    version     BIGINT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    update_time DATETIME(6) NOT NULL,
    -- The order of assets is not that of their names.
    asset_no    TINYINT GENERATED ALWAYS AS (CASE asset WHEN 'coupon' THEN 0 WHEN 'wallet' THEN 1 ELSE 2 END) STORED,
    PRIMARY KEY (tenant_id, order_id, asset),
    KEY idx_holds_frozen (status, create_time, order_id, asset_no),
    KEY idx_holds_user (tenant_id, user_id, status, asset, order_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The marketplace's own accounts have no row here: every payment would wait for every other.
CREATE TABLE asset_balances (
    tenant_id   BIGINT NOT NULL,
    user_id     BIGINT NOT NULL,
    purse       VARCHAR(16) NOT NULL CHECK (purse IN ('wallet', 'points')),
    available   BIGINT NOT NULL,
    frozen      BIGINT NOT NULL,
    debt        BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    update_time DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, user_id, purse),
    CHECK (available >= 0 AND frozen >= 0 AND debt >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- Operations and entries are only ever added to: the user of the service is granted SELECT and INSERT on both, no more.
CREATE TABLE asset_operations (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id       BIGINT NOT NULL,
    idempotency_key VARCHAR(300) NOT NULL,
    asset           VARCHAR(16) NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points', 'cash')),
    kind            VARCHAR(16) NOT NULL
                    CHECK (kind IN ('DEPOSIT', 'GRANT', 'ISSUE', 'FREEZE', 'COMMIT', 'RELEASE', 'REVERT', 'EARN',
                    'UNEARN', 'CAPTURE', 'PAYOUT')),
    user_id         BIGINT NOT NULL,
    order_id        BIGINT,
    refund_id       BIGINT,
    coupon_id       BIGINT,
    amount          BIGINT NOT NULL CHECK (amount >= 0),
    balance_after   BIGINT,
    event_id        VARCHAR(64),
    trace_id        TEXT,
    create_time     DATETIME(6) NOT NULL,
    UNIQUE KEY uk_asset_operations (tenant_id, idempotency_key),
    KEY idx_asset_operations_order (tenant_id, order_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE ledger_entries (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id       BIGINT NOT NULL,
    idempotency_key VARCHAR(300) NOT NULL,
    account         VARCHAR(16) NOT NULL
                    CHECK (account IN ('wallet', 'wallet_hold', 'points', 'points_hold', 'points_debt', 'platform',
                    'gateway', 'points_issued')),
    user_id         BIGINT,
    amount          BIGINT NOT NULL,
    balance_after   BIGINT,
    create_time     DATETIME(6) NOT NULL,
    UNIQUE KEY uk_ledger_entries (tenant_id, idempotency_key, account),
    KEY idx_ledger_account (tenant_id, user_id, account, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE refunds (
    id                BIGINT NOT NULL PRIMARY KEY,
    tenant_id         BIGINT NOT NULL,
    order_id          BIGINT NOT NULL,
    payment_id        BIGINT NOT NULL,
    amount_minor      BIGINT NOT NULL,
    currency          VARCHAR(3) NOT NULL,
    cause             VARCHAR(16) NOT NULL CHECK (cause IN ('buyer', 'operator', 'late_payment')),
    reason            TEXT NOT NULL,
    status            VARCHAR(16) NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    attempts          BIGINT NOT NULL,
    next_attempt_time DATETIME(6),
    last_error        MEDIUMTEXT,
    version           BIGINT NOT NULL,
    create_time       DATETIME(6) NOT NULL,
    update_time       DATETIME(6) NOT NULL,
    -- No more goes back than came.
    repaid_payment    BIGINT GENERATED ALWAYS AS (CASE WHEN status <> 'FAILED' THEN payment_id END) STORED,
    UNIQUE KEY uk_refunds_payment (repaid_payment),
    KEY idx_refunds_order (tenant_id, order_id, id),
    KEY idx_refunds_due (status, next_attempt_time, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
