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
    carrier       TEXT,
    tracking_no   TEXT,
    version       BIGINT NOT NULL,
    create_time   DATETIME(6) NOT NULL,
    pay_time      DATETIME(6),
    update_time   DATETIME(6) NOT NULL,
    KEY idx_orders_buyer (tenant_id, buyer_id, id),
    KEY idx_orders_seller (tenant_id, seller_id, id),
    KEY idx_orders_pending (status, create_time, id)
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
    version          BIGINT NOT NULL,
    create_time      DATETIME(6) NOT NULL,
    update_time      DATETIME(6) NOT NULL,
    processing_order BIGINT GENERATED ALWAYS AS (CASE WHEN status = 'PROCESSING' THEN order_id END) STORED,
    UNIQUE KEY uk_payments_transaction (transaction_id),
    UNIQUE KEY uk_payments_processing (tenant_id, processing_order)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- Columns without a default are those a row inserted by hand has to name. The checks keep out what the relay could
-- not read: one bad row would stop all of them.
CREATE TABLE outbox_events (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id        VARCHAR(64) NOT NULL CHECK (CHAR_LENGTH(event_id) > 0 AND event_id NOT REGEXP '[^!-~]'),
    event_type      VARCHAR(64) NOT NULL,
    aggregate_type  VARCHAR(64) NOT NULL,
    aggregate_id    BIGINT NOT NULL,
    payload         TEXT NOT NULL,
    status          VARCHAR(16) NOT NULL DEFAULT 'NEW' CHECK (status IN ('NEW', 'RETRY', 'SENT', 'FAILED')),
    retry_count     INT NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    next_retry_time DATETIME(6),
    create_time     DATETIME(6) NOT NULL,
    update_time     DATETIME(6) NOT NULL,
    tenant_id       BIGINT NOT NULL DEFAULT 1 CHECK (tenant_id BETWEEN 1 AND 9007199254740991),
    aggregate_seq   BIGINT NOT NULL DEFAULT 0,
    metadata        TEXT CHECK (metadata IS NULL OR (JSON_VALID(metadata) AND JSON_TYPE(metadata) = 'OBJECT')),
    max_retry_count INT NOT NULL DEFAULT 3 CHECK (max_retry_count >= 0),
    last_error      MEDIUMTEXT,
    sent_time       DATETIME(6),
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
    KEY idx_consume_unsettled (consumer, status, consume_time)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE consumer_subscriptions (
    consumer      VARCHAR(64) NOT NULL PRIMARY KEY,
    since         DATETIME(6) NOT NULL,
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
    UNIQUE KEY uk_dead_letter (queue, message_key),
    -- Named, or nobody could change it on both servers.
    CONSTRAINT ck_dead_letters_status CHECK (status IN ('OPEN', 'REPLAYING', 'REPLAYED', 'DISCARDED'))
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

-- No unique event_id in the two below: a doubled effect must show.
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
    KEY idx_listing_changes_order (tenant_id, order_id)
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
    KEY idx_shipments_order (tenant_id, order_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
