-- The outbox. Texts are compared byte by byte, trailing spaces too: MariaDB and MySQL name that collation differently, and
-- each skips the other's comment. DATETIME(6), as a DATETIME cuts or rounds and sends too early. No partial indexes here:
-- where one is needed, a generated column that is NULL in all other rows leads it.
--
-- Nothing here is undone when a later statement fails: a statement stands alone, ends its last line with a semicolon, and
-- is run again only if it was not run before.

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

CREATE TABLE outbox_consumer_subscriptions (
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

CREATE TABLE outbox_relays (
    relay       VARCHAR(255) NOT NULL PRIMARY KEY,
    alive_until DATETIME(6) NOT NULL
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

-- Only ever added to. A trigger that refuses the rest needs rights which a server with a binary log gives to no
-- ordinary user: the user of the service is granted SELECT and INSERT here, and no more.
CREATE TABLE outbox_audit_log (
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
    KEY idx_outbox_audit_tenant (tenant_id, id),
    KEY idx_outbox_audit_changes (tenant_id, is_change, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The database broker: one row per queue and message.

CREATE TABLE outbox_broker_queues (
    queue           VARCHAR(255) NOT NULL PRIMARY KEY,
    ttl_ms          BIGINT,
    dead_letter_key VARCHAR(255)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

CREATE TABLE outbox_broker_bindings (
    queue   VARCHAR(255) NOT NULL,
    pattern VARCHAR(255) NOT NULL,
    PRIMARY KEY (queue, pattern),
    CONSTRAINT fk_outbox_broker_bindings_queue FOREIGN KEY (queue) REFERENCES outbox_broker_queues (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A subscription. What it has claimed is its own until its heartbeat runs out.
CREATE TABLE outbox_broker_sessions (
    session_id  BIGINT NOT NULL PRIMARY KEY,
    queue       VARCHAR(255) NOT NULL,
    alive_until DATETIME(6) NOT NULL,
    KEY idx_outbox_broker_sessions_queue (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The last id of a session: never used twice, since what an ended session had claimed must not look like another's.
CREATE TABLE outbox_broker_counter (
    one             BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    last_session_id BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
INSERT IGNORE INTO outbox_broker_counter (one, last_session_id) VALUES (1, 0);

-- `id` is the place in the queue; a message that is returned keeps it. Never used twice, as it is the delivery tag too.
CREATE TABLE outbox_broker_messages (
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
    KEY idx_outbox_broker_ready (queue, session_id, id),
    KEY idx_outbox_broker_claimed (session_id, id),
    KEY idx_outbox_broker_expiry (session_id, expires_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
