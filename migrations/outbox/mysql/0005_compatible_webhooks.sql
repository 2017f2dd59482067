-- Webhooks: endpoints of tenants, deliveries of events to them, and the attempts at each delivery. `0001_baseline.sql`
-- explains the collation and the form of statements.

-- A row is an endpoint: a URL of a tenant to which events are sent.
CREATE TABLE webhook_endpoints (
    id                   VARCHAR(36) NOT NULL PRIMARY KEY,
    tenant_id            BIGINT NOT NULL,
    -- Number that is unique among the endpoints of the tenant; NULL in a deleted endpoint.
    slot                 BIGINT,
    url                  TEXT NOT NULL,
    description          TEXT,
    -- JSON array of patterns.
    event_types          MEDIUMTEXT NOT NULL,
    is_ordered           BIGINT NOT NULL CHECK (is_ordered IN (0, 1)),
    body_form            VARCHAR(16) NOT NULL CHECK (body_form IN ('THIN', 'FULL', 'UNMASKED')),
    signs_asymmetrically BIGINT NOT NULL CHECK (signs_asymmetrically IN (0, 1)),
    per_second           BIGINT CHECK (per_second > 0),
    max_in_flight        BIGINT NOT NULL CHECK (max_in_flight >= 0),
    -- JSON array of names, and the encrypted names and values.
    header_names         MEDIUMTEXT,
    headers_sealed       MEDIUMTEXT,
    -- JSON array of encrypted secrets with their public keys and the times until which they are used.
    secrets              MEDIUMTEXT NOT NULL,
    status               VARCHAR(16) NOT NULL CHECK (status IN ('ENABLED', 'DISABLED', 'DELETED')),
    disabled_reason      TEXT,
    version              BIGINT NOT NULL,
    create_time          DATETIME(6) NOT NULL,
    update_time          DATETIME(6) NOT NULL,
    failing_since        DATETIME(6),
    failures             BIGINT NOT NULL DEFAULT 0,
    last_success_time    DATETIME(6),
    paused_until         DATETIME(6),
    -- Time of the next attempt that the limit of attempts per second permits.
    next_attempt_time    DATETIME(6),
    UNIQUE KEY uk_webhook_endpoints_slot (tenant_id, slot),
    KEY idx_webhook_endpoints_status (status, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the delivery of one event to one endpoint. The next attempt is due at `due_time`; while a process has claimed
-- the delivery, `due_time` is the end of the claim.
CREATE TABLE webhook_deliveries (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    endpoint_id VARCHAR(36) NOT NULL,
    tenant_id   BIGINT NOT NULL,
    event_id    VARCHAR(64) NOT NULL,
    redelivery  BIGINT NOT NULL,
    event_type  VARCHAR(255) NOT NULL,
    order_key   VARCHAR(512) NOT NULL,
    body        LONGTEXT NOT NULL,
    state       VARCHAR(16) NOT NULL CHECK (state IN ('PENDING', 'DELIVERED', 'DEAD', 'CANCELLED')),
    due_time    DATETIME(6) NOT NULL,
    claim_id    VARCHAR(255),
    claims      BIGINT NOT NULL DEFAULT 0,
    attempts    BIGINT NOT NULL DEFAULT 0,
    -- 1 if a claim found that an earlier delivery with the same `order_key` is pending. Claims skip the row until such a
    -- delivery is settled.
    is_blocked  BIGINT NOT NULL DEFAULT 0 CHECK (is_blocked IN (0, 1)),
    last_status BIGINT,
    last_error  MEDIUMTEXT,
    create_time DATETIME(6) NOT NULL,
    settle_time DATETIME(6),
    -- Number of later inserts of the same delivery, which were ignored. An ignored insert must change the row: otherwise
    -- the number of affected rows is the same as for a new row.
    duplicates  BIGINT NOT NULL DEFAULT 0,
    -- 1 in a claimed row, otherwise NULL.
    is_claimed  TINYINT GENERATED ALWAYS AS (CASE WHEN claim_id IS NOT NULL THEN 1 END) STORED,
    -- The index also finds the deliveries of an event.
    UNIQUE KEY uk_webhook_deliveries (event_id, endpoint_id, redelivery),
    KEY idx_webhook_deliveries_endpoint (endpoint_id, id),
    KEY idx_webhook_deliveries_due (endpoint_id, state, is_blocked, due_time, id),
    KEY idx_webhook_deliveries_order (endpoint_id, state, order_key, id),
    KEY idx_webhook_deliveries_claimed (endpoint_id, is_claimed, due_time),
    KEY idx_webhook_deliveries_dead (endpoint_id, state, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is one attempt at a delivery. Append-only.
CREATE TABLE webhook_attempts (
    id           BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    delivery_id  BIGINT NOT NULL,
    endpoint_id  VARCHAR(36) NOT NULL,
    attempt_time DATETIME(6) NOT NULL,
    duration_ms  BIGINT NOT NULL,
    outcome      VARCHAR(16) NOT NULL CHECK (outcome IN ('DELIVERED', 'FAILED', 'INTERRUPTED')),
    status       BIGINT,
    error        MEDIUMTEXT,
    response     MEDIUMTEXT,
    KEY idx_webhook_attempts_delivery (delivery_id, id),
    -- Covering index: the attempts of a period are counted without reading the table.
    KEY idx_webhook_attempts_endpoint (endpoint_id, attempt_time, outcome)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
