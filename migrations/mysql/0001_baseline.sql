-- The store. Texts are compared byte by byte, trailing spaces too: MariaDB and MySQL name that collation differently, and
-- each skips the other's comment. DATETIME(6), as a DATETIME cuts or rounds and fires timeouts early. Money is in minor
-- units. No partial indexes here: where one is needed, a generated column that is NULL in all other rows leads it.
--
-- Nothing here is undone when a later statement fails: a statement stands alone, ends its last line with a semicolon, and
-- is run again only if it was not run before.

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

-- Columns without a default are those a row inserted by hand has to name. The checks keep out what the relay could
-- not read. A mode of a session may let February 31 and months 0 in, which no calendar has.
CREATE TABLE outbox_events (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id        VARCHAR(64) NOT NULL CHECK (CHAR_LENGTH(event_id) > 0 AND event_id NOT REGEXP '[^!-~]'),
    event_type      VARCHAR(64) NOT NULL,
    aggregate_type  VARCHAR(64) NOT NULL,
    aggregate_id    BIGINT NOT NULL,
    payload         TEXT NOT NULL,
    status          VARCHAR(16) NOT NULL DEFAULT 'NEW' CHECK (status IN ('NEW', 'RETRY', 'SENT', 'FAILED')),
    retry_count     INT NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    next_retry_time DATETIME(6)
                    CHECK (next_retry_time IS NULL OR (DAYOFMONTH(next_retry_time) BETWEEN 1 AND DAYOFMONTH(LAST_DAY(next_retry_time))) IS TRUE),
    create_time     DATETIME(6) NOT NULL
                    CHECK ((DAYOFMONTH(create_time) BETWEEN 1 AND DAYOFMONTH(LAST_DAY(create_time))) IS TRUE),
    update_time     DATETIME(6) NOT NULL
                    CHECK ((DAYOFMONTH(update_time) BETWEEN 1 AND DAYOFMONTH(LAST_DAY(update_time))) IS TRUE),
    tenant_id       BIGINT NOT NULL DEFAULT 1 CHECK (tenant_id BETWEEN 1 AND 9007199254740991),
    aggregate_seq   BIGINT NOT NULL DEFAULT 0,
    metadata        TEXT CHECK (metadata IS NULL OR (JSON_VALID(metadata) AND JSON_TYPE(metadata) = 'OBJECT')),
    max_retry_count INT NOT NULL DEFAULT 3 CHECK (max_retry_count >= 0),
    last_error      MEDIUMTEXT,
    sent_time       DATETIME(6)
                    CHECK (sent_time IS NULL OR (DAYOFMONTH(sent_time) BETWEEN 1 AND DAYOFMONTH(LAST_DAY(sent_time))) IS TRUE),
    -- A FAILED event that was released holds back no later one of its aggregate.
    released_time   DATETIME(6)
                    CHECK (released_time IS NULL OR (DAYOFMONTH(released_time) BETWEEN 1 AND DAYOFMONTH(LAST_DAY(released_time))) IS TRUE),
    -- The domain's `Partition::of`. Both terms are reduced first, or their sum would overflow.
    partition_no    INT GENERATED ALWAYS AS (((aggregate_id % 64 + tenant_id % 64 * 31) % 64 + 64) % 64) STORED,
    -- What the relay scans, in its order.
    pending         TINYINT GENERATED ALWAYS AS (CASE WHEN status IN ('NEW', 'RETRY') THEN 1 END) STORED,
    UNIQUE KEY uk_event_id (event_id),
    KEY idx_status_time (status, next_retry_time),
    KEY idx_aggregate (aggregate_type, aggregate_id),
    KEY idx_type_time (event_type, create_time),
    KEY idx_outbox_pending (pending, id),
    -- What may stand before a pending row: those that wait for their time, those given up, those out of order.
    KEY idx_outbox_order (aggregate_type, aggregate_id, tenant_id, status, aggregate_seq, next_retry_time),
    KEY idx_outbox_sent (sent_time)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- What a row of the outbox no longer says of itself. Only ever added to.
CREATE TABLE outbox_history (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    event_id    VARCHAR(64) NOT NULL,
    kind        VARCHAR(16) NOT NULL CHECK (kind IN ('RETRY', 'FAILED', 'SENT', 'REDRIVEN', 'DUPLICATE')),
    consumer    VARCHAR(64),
    attempts    BIGINT NOT NULL,
    detail      TEXT,
    create_time DATETIME(6) NOT NULL,
    KEY idx_outbox_history (event_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE event_consume_log (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id        VARCHAR(64) NOT NULL,
    event_type      VARCHAR(64) NOT NULL,
    consumer        VARCHAR(64) NOT NULL,
    consume_time    DATETIME(6) NOT NULL,
    status          VARCHAR(16) NOT NULL
                    CHECK (status IN ('PROCESSING', 'WAITING', 'SUCCESS', 'FAILED', 'DEAD')),
    attempts        BIGINT NOT NULL,
    cost_ms         BIGINT NOT NULL,
    error_message   MEDIUMTEXT,
    idempotency_key TEXT,
    consume_result  MEDIUMTEXT,
    payload_hash    VARCHAR(64) NOT NULL,
    trace_id        TEXT NOT NULL,
    tenant_id       BIGINT NOT NULL,
    lease_until     DATETIME(6),
    next_retry_time DATETIME(6),
    aggregate_type  VARCHAR(64) NOT NULL,
    aggregate_id    BIGINT NOT NULL,
    aggregate_seq   BIGINT NOT NULL,
    UNIQUE KEY uk_consumer_event (consumer, event_id),
    KEY idx_consume_unsettled (consumer, status, consume_time),
    KEY idx_consume_event (event_id),
    KEY idx_consume_open (status, id),
    -- Counts read the index alone.
    KEY idx_consume_count (consumer, status, tenant_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE consumer_subscriptions (
    consumer      VARCHAR(64) NOT NULL PRIMARY KEY,
    after_id      BIGINT NOT NULL,
    checked_until DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- Every partition has its row from the first day: taking one is an UPDATE.
CREATE TABLE outbox_partitions (
    partition_no BIGINT NOT NULL PRIMARY KEY CHECK (partition_no BETWEEN 0 AND 63),
    owner        VARCHAR(255),
    epoch        BIGINT NOT NULL DEFAULT 0,
    lease_until  DATETIME(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

INSERT IGNORE INTO outbox_partitions (partition_no) VALUES
    (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15),
    (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31),
    (32), (33), (34), (35), (36), (37), (38), (39), (40), (41), (42), (43), (44), (45), (46), (47),
    (48), (49), (50), (51), (52), (53), (54), (55), (56), (57), (58), (59), (60), (61), (62), (63);

CREATE TABLE relays (
    relay       VARCHAR(255) NOT NULL PRIMARY KEY,
    alive_until DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE id_blocks (
    kind    VARCHAR(64) NOT NULL PRIMARY KEY,
    next_id BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE dead_letters (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    queue       VARCHAR(255) NOT NULL,
    message_key VARCHAR(255) NOT NULL,
    tenant_id   BIGINT NOT NULL,
    event_type  TEXT,
    trace_id    TEXT,
    body        LONGTEXT NOT NULL,
    reason      MEDIUMTEXT NOT NULL,
    died_at     DATETIME(6) NOT NULL,
    status      VARCHAR(16) NOT NULL,
    decided_at  DATETIME(6),
    note        TEXT,
    UNIQUE KEY uk_dead_letter (queue, message_key),
    -- Named, or nobody could change it on both servers.
    CONSTRAINT ck_dead_letters_status CHECK (status IN ('OPEN', 'REPLAYING', 'REPLAYED', 'DISCARDED')),
    KEY idx_dead_letters_key (message_key),
    KEY idx_dead_letters_tenant (tenant_id, id),
    KEY idx_dead_letters_undecided (status, tenant_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

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

-- Effects: each has a natural key, the order and its transition, whatever event announced it (004 Q5).
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
    -- The listing of a product follows from all of its changes.
    KEY idx_listing_changes_product (tenant_id, product_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

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

-- Effects: each has a natural key, the order and its transition, whatever event announced it (004 Q5).
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
    trace_id          VARCHAR(64),
    traceparent       VARCHAR(64),
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

-- Requests under an idempotency key (spec §4): who is at work on one, and what it was answered.
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

-- Only ever added to. A trigger that refuses the rest needs rights which a server with a binary log gives to no
-- ordinary user: the user of the service is granted SELECT and INSERT here, and no more.
CREATE TABLE audit_log (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    actor       VARCHAR(255) NOT NULL,
    action      VARCHAR(64) NOT NULL,
    selection   LONGTEXT NOT NULL,
    changed     BIGINT NOT NULL CHECK (changed >= 0),
    -- How many rows an entry showed or chose to change.
    matched     BIGINT NOT NULL DEFAULT 0 CHECK (matched >= 0),
    reason      TEXT,
    trace_id    TEXT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    -- Changes are found among the reads by an index of their own.
    is_change   BIGINT GENERATED ALWAYS AS (changed > 0) VIRTUAL,
    KEY idx_audit_tenant (tenant_id, id),
    KEY idx_audit_changes (tenant_id, is_change, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The database broker: one row per queue and message.

CREATE TABLE broker_queues (
    queue           VARCHAR(255) NOT NULL PRIMARY KEY,
    ttl_ms          BIGINT,
    dead_letter_key VARCHAR(255)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE broker_bindings (
    queue   VARCHAR(255) NOT NULL,
    pattern VARCHAR(255) NOT NULL,
    PRIMARY KEY (queue, pattern),
    CONSTRAINT fk_broker_bindings_queue FOREIGN KEY (queue) REFERENCES broker_queues (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A subscription. What it has claimed is its own until its heartbeat runs out.
CREATE TABLE broker_sessions (
    session_id  BIGINT NOT NULL PRIMARY KEY,
    queue       VARCHAR(255) NOT NULL,
    alive_until DATETIME(6) NOT NULL,
    KEY idx_broker_sessions_queue (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- `id` is the place in the queue; a message that is returned keeps it. Never used twice, as it is the delivery tag too.
CREATE TABLE broker_messages (
    id             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    queue          VARCHAR(255) NOT NULL,
    message_id     TEXT,
    kind           TEXT,
    correlation_id TEXT,
    headers        MEDIUMTEXT NOT NULL,
    body           LONGTEXT NOT NULL,
    expires_at     DATETIME(6),
    session_id     BIGINT,
    redelivered    BIGINT NOT NULL DEFAULT 0 CHECK (redelivered IN (0, 1)),
    died_in        VARCHAR(255),
    KEY idx_broker_ready (queue, session_id, id),
    KEY idx_broker_claimed (session_id, id),
    KEY idx_broker_expiry (session_id, expires_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
