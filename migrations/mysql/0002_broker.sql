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
