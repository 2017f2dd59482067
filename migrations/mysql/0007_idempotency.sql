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
