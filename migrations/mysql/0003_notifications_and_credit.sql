-- What status-sync and buyer-credit leave behind, and the pages of users.

-- No unique event_id in the two below: a doubled effect must show.
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
    KEY idx_notifications_order (tenant_id, order_id),
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
    KEY idx_credit_changes_order (tenant_id, order_id)
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

CREATE INDEX idx_shipments_seller ON shipments (tenant_id, seller_id, id);

CREATE INDEX idx_shipments_buyer ON shipments (tenant_id, buyer_id, id);
