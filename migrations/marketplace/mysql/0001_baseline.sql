-- Tables of the marketplace. Amounts of money are in minor units.
--
-- Strings are compared byte by byte, including trailing spaces. MariaDB and MySQL use different names for this
-- collation; each server ignores the version comment that is meant for the other one.
--
-- Times are DATETIME(6): in a DATETIME, MySQL rounds and MariaDB truncates fractions of a second, so that a row could
-- become due too early.
--
-- MySQL and MariaDB have no partial indexes. Instead, an index contains the column of the condition, such as `status`,
-- or a generated column that is NULL in the rows that a partial index would omit.
--
-- DDL is not transactional on MySQL and MariaDB: if a statement fails, the effects of the earlier statements remain. To
-- resume the migration, the service splits the file at semicolons that end a line, runs every statement again and
-- ignores errors that report that the change exists already. Therefore a statement must end with a semicolon at the end
-- of a line, must not depend on session state and, if it changes rows, must be idempotent.

CREATE TABLE products (
    id          BIGINT NOT NULL PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    seller_id   BIGINT NOT NULL,
    title       TEXT NOT NULL,
    price_minor BIGINT NOT NULL,
    status      VARCHAR(16) NOT NULL CHECK (status IN ('on_sale', 'sold', 'off_shelf')),
    version     BIGINT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    update_time DATETIME(6) NOT NULL,
    KEY idx_products_page (tenant_id, status, id),
    KEY idx_products_tenant (tenant_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE orders (
    id            BIGINT NOT NULL PRIMARY KEY,
    order_no      VARCHAR(64) NOT NULL,
    tenant_id     BIGINT NOT NULL,
    product_id    BIGINT NOT NULL,
    buyer_id      BIGINT NOT NULL,
    seller_id     BIGINT NOT NULL,
    status        VARCHAR(16) NOT NULL
                  CHECK (status IN ('pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded')),
    cancel_reason VARCHAR(64),
    total_minor   BIGINT NOT NULL,
    payable_minor BIGINT NOT NULL,
    coupon_id     BIGINT,
    coupon_minor  BIGINT NOT NULL DEFAULT 0,
    wallet_minor  BIGINT NOT NULL DEFAULT 0,
    points        BIGINT NOT NULL DEFAULT 0,
    refund_id     BIGINT,
    carrier       TEXT,
    tracking_no   TEXT,
    version       BIGINT NOT NULL,
    create_time   DATETIME(6) NOT NULL,
    pay_time      DATETIME(6),
    update_time   DATETIME(6) NOT NULL,
    KEY idx_orders_buyer (tenant_id, buyer_id, id),
    KEY idx_orders_seller (tenant_id, seller_id, id),
    KEY idx_orders_pending (status, create_time, id),
    KEY idx_orders_updated (update_time, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE payments (
    id               BIGINT NOT NULL PRIMARY KEY,
    tenant_id        BIGINT NOT NULL,
    order_id         BIGINT NOT NULL,
    amount_minor     BIGINT NOT NULL,
    currency         VARCHAR(3) NOT NULL,
    payment_method   TEXT NOT NULL,
    status           VARCHAR(16) NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    transaction_id   VARCHAR(255),
    refund_due       BIGINT NOT NULL CHECK (refund_due IN (0, 1)),
    trace_id         VARCHAR(64),
    traceparent      VARCHAR(64),
    version          BIGINT NOT NULL,
    create_time      DATETIME(6) NOT NULL,
    update_time      DATETIME(6) NOT NULL,
    processing_order BIGINT GENERATED ALWAYS AS (CASE WHEN status = 'PROCESSING' THEN order_id END) STORED,
    UNIQUE KEY uk_payments_transaction (transaction_id),
    UNIQUE KEY uk_payments_processing (tenant_id, processing_order),
    KEY idx_payments_order (tenant_id, order_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row contains the next free id of one kind. A process reserves a block of consecutive ids by increasing `next_id`.
CREATE TABLE id_blocks (
    kind    VARCHAR(64) NOT NULL PRIMARY KEY,
    next_id BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the current state of a product in the listing of its seller, computed from `listing_changes`.
CREATE TABLE listings (
    tenant_id   BIGINT NOT NULL,
    seller_id   BIGINT NOT NULL,
    product_id  BIGINT NOT NULL,
    taken_by    BIGINT,
    event_id    VARCHAR(64) NOT NULL,
    update_time DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, product_id, seller_id),
    KEY idx_listings_seller (tenant_id, seller_id, product_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The rows of `listing_changes`, `shipments`, `notifications` and `buyer_credit_changes` are effects of consumers. The
-- natural key of an effect, order and business fact, is unique, so that an effect is applied once even if several
-- events announce the fact (seed 004, Q5).
CREATE TABLE listing_changes (
    id            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id     BIGINT NOT NULL,
    seller_id     BIGINT NOT NULL,
    product_id    BIGINT NOT NULL,
    order_id      BIGINT NOT NULL,
    aggregate_seq BIGINT NOT NULL,
    kind          VARCHAR(16) NOT NULL CHECK (kind IN ('OCCUPIED', 'RELEASED')),
    event_id      VARCHAR(64) NOT NULL,
    create_time   DATETIME(6) NOT NULL,
    UNIQUE KEY uk_listing_changes (tenant_id, order_id, kind),
    -- Consumers compute the row in `listings` from all changes of the product.
    KEY idx_listing_changes_product (tenant_id, product_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is a shipment task for the seller of an order.
CREATE TABLE shipments (
    id            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id     BIGINT NOT NULL,
    order_id      BIGINT NOT NULL,
    seller_id     BIGINT NOT NULL,
    buyer_id      BIGINT NOT NULL,
    aggregate_seq BIGINT NOT NULL,
    event_id      VARCHAR(64) NOT NULL,
    create_time   DATETIME(6) NOT NULL,
    UNIQUE KEY uk_shipments (tenant_id, order_id),
    KEY idx_shipments_seller (tenant_id, seller_id, id),
    KEY idx_shipments_buyer (tenant_id, buyer_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is a notification to the buyer or the seller about a new status of an order.
CREATE TABLE notifications (
    id            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id     BIGINT NOT NULL,
    user_id       BIGINT NOT NULL,
    side          VARCHAR(16) NOT NULL CHECK (side IN ('buyer', 'seller')),
    order_id      BIGINT NOT NULL,
    aggregate_seq BIGINT NOT NULL,
    old_status    VARCHAR(16) NOT NULL,
    new_status    VARCHAR(16) NOT NULL,
    changed_at    DATETIME(6) NOT NULL,
    event_id      VARCHAR(64) NOT NULL,
    create_time   DATETIME(6) NOT NULL,
    UNIQUE KEY uk_notifications (tenant_id, order_id, new_status, side),
    KEY idx_notifications_user (tenant_id, user_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE buyer_credit_changes (
    id            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id     BIGINT NOT NULL,
    buyer_id      BIGINT NOT NULL,
    order_id      BIGINT NOT NULL,
    aggregate_seq BIGINT NOT NULL,
    step          VARCHAR(32) NOT NULL
                  CHECK (step IN ('COMPLETED', 'CANCELLED_BY_BUYER', 'CANCELLED_BY_TIMEOUT')),
    event_id      VARCHAR(64) NOT NULL,
    create_time   DATETIME(6) NOT NULL,
    UNIQUE KEY uk_credit_changes (tenant_id, order_id, step)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE buyer_credit (
    tenant_id            BIGINT NOT NULL,
    buyer_id             BIGINT NOT NULL,
    completed            BIGINT NOT NULL,
    cancelled_by_buyer   BIGINT NOT NULL,
    cancelled_by_timeout BIGINT NOT NULL,
    score                BIGINT NOT NULL CHECK (score BETWEEN 0 AND 120),
    last_event_id        VARCHAR(64) NOT NULL,
    update_time          DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, buyer_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

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

-- A row is the hold of one asset for one order.
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
    -- Sort position of the asset: holds are sorted by coupon, wallet, points, which is not the alphabetical order.
    asset_no    TINYINT GENERATED ALWAYS AS (CASE asset WHEN 'coupon' THEN 0 WHEN 'wallet' THEN 1 ELSE 2 END) STORED,
    PRIMARY KEY (tenant_id, order_id, asset),
    KEY idx_holds_frozen (status, create_time, order_id, asset_no),
    KEY idx_holds_user (tenant_id, user_id, status, asset, order_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the balance of a user in one purse. The accounts of the marketplace have no row, because every payment would
-- lock the same row, so that payments would run one after another.
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

-- A row is one operation on an asset. Its key is unique in the tenant, so that the operation takes effect once.
-- Operations and ledger entries are append-only: the user of the service must have only the privileges SELECT and
-- INSERT on them.
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

-- A row is the amount of an operation on one account. The entries of an operation sum to zero.
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
    trace_id          VARCHAR(64),
    traceparent       VARCHAR(64),
    version           BIGINT NOT NULL,
    create_time       DATETIME(6) NOT NULL,
    update_time       DATETIME(6) NOT NULL,
    -- At most one refund of a payment is not FAILED, so that at most the captured amount is refunded.
    repaid_payment    BIGINT GENERATED ALWAYS AS (CASE WHEN status <> 'FAILED' THEN payment_id END) STORED,
    UNIQUE KEY uk_refunds_payment (repaid_payment),
    KEY idx_refunds_order (tenant_id, order_id, id),
    KEY idx_refunds_due (status, next_attempt_time, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is a request with an idempotency key (spec §4): the claim of the attempt that executes the request, then the
-- stored response.
CREATE TABLE idempotency_keys (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id       BIGINT NOT NULL,
    user_id         BIGINT NOT NULL,
    route           VARCHAR(255) NOT NULL,
    idempotency_key VARCHAR(255) NOT NULL,
    body_hash       VARCHAR(64) NOT NULL,
    token           VARCHAR(64) NOT NULL,
    status          VARCHAR(16) NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS')),
    lease_until     DATETIME(6),
    answer_status   BIGINT,
    answer          MEDIUMTEXT,
    trace_id        VARCHAR(64) NOT NULL,
    create_time     DATETIME(6) NOT NULL,
    expire_time     DATETIME(6) NOT NULL,
    UNIQUE KEY uk_idempotency_keys (tenant_id, user_id, route, idempotency_key),
    KEY idx_idempotency_expire (expire_time, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
