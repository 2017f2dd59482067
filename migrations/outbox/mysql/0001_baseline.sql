-- Tables of the outbox.
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

-- A row is one event and its publishing status. An operator may insert a row by SQL: it must set the NOT NULL columns
-- that have neither a default nor a generated value. CHECK constraints reject values that the relay cannot read, such
-- as dates that do not exist: depending on its SQL mode, a session accepts February 31 and month 0.
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
    -- Time at which an operator released the row: a released FAILED row does not block later events of its aggregate.
    released_time   DATETIME(6)
                    CHECK (released_time IS NULL OR (DAYOFMONTH(released_time) BETWEEN 1 AND DAYOFMONTH(LAST_DAY(released_time))) IS TRUE),
    -- Same value as `Partition::of` in the domain. Both terms are reduced modulo 64 before they are added, because
    -- otherwise their sum could exceed 64 bits: MySQL would report an error.
    partition_no    INT GENERATED ALWAYS AS (((aggregate_id % 64 + tenant_id % 64 * 31) % 64 + 64) % 64) STORED,
    -- 1 in a pending row, otherwise NULL: the first column of the index that the relay scans in id order.
    pending         TINYINT GENERATED ALWAYS AS (CASE WHEN status IN ('NEW', 'RETRY') THEN 1 END) STORED,
    UNIQUE KEY uk_event_id (event_id),
    KEY idx_status_time (status, next_retry_time),
    KEY idx_aggregate (aggregate_type, aggregate_id),
    KEY idx_type_time (event_type, create_time),
    KEY idx_outbox_pending (pending, id),
    -- In this index the relay looks up earlier events of the aggregate of a pending row: RETRY rows that are not due,
    -- FAILED rows that were not released, and pending rows with a smaller `aggregate_seq` but a greater id.
    KEY idx_outbox_order (aggregate_type, aggregate_id, tenant_id, status, aggregate_seq, next_retry_time),
    KEY idx_outbox_sent (sent_time)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is an entry of the history of an event: a fact that the outbox row of the event does not contain, such as the
-- error of an earlier attempt, an earlier publisher confirm, a redrive or an ignored duplicate. Append-only.
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

-- A row records the state of one event at one consumer.
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
    -- Covering index: the records per consumer and status are counted without reading the table.
    KEY idx_consume_count (consumer, status, tenant_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the subscription of one consumer: the outbox id after which it receives events, and the time up to which its
-- consume log was checked for events that the broker lost.
CREATE TABLE outbox_consumer_subscriptions (
    consumer      VARCHAR(64) NOT NULL PRIMARY KEY,
    after_id      BIGINT NOT NULL,
    checked_until DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the lease of one partition. All 64 rows always exist, so that a relay acquires a partition with an UPDATE.
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

-- A row is the heartbeat of one relay.
CREATE TABLE outbox_relays (
    relay       VARCHAR(255) NOT NULL PRIMARY KEY,
    alive_until DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is a message that no consumer could process, parked for an operator.
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
    -- The constraint has a name, because MySQL and MariaDB generate different names, and a later migration must be able
    -- to change the constraint on both servers.
    CONSTRAINT ck_dead_letters_status CHECK (status IN ('OPEN', 'REPLAYING', 'REPLAYED', 'DISCARDED')),
    KEY idx_dead_letters_key (message_key),
    KEY idx_dead_letters_tenant (tenant_id, id),
    KEY idx_dead_letters_undecided (status, tenant_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row records one call of an operator. Append-only: the user of the service must have only the privileges SELECT and
-- INSERT. There are no triggers, because by default a server with a binary log requires administrative privileges to
-- create them.
CREATE TABLE outbox_audit_log (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant_id   BIGINT NOT NULL,
    actor       VARCHAR(255) NOT NULL,
    action      VARCHAR(64) NOT NULL,
    selection   LONGTEXT NOT NULL,
    changed     BIGINT NOT NULL CHECK (changed >= 0),
    -- Number of rows that the call returned or selected for a change.
    matched     BIGINT NOT NULL DEFAULT 0 CHECK (matched >= 0),
    reason      TEXT,
    trace_id    TEXT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    -- 1 if the call changed rows: `idx_outbox_audit_changes` finds these calls without reading the other entries.
    is_change   BIGINT GENERATED ALWAYS AS (changed > 0) VIRTUAL,
    KEY idx_outbox_audit_tenant (tenant_id, id),
    KEY idx_outbox_audit_changes (tenant_id, is_change, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- Tables of the database broker.

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

-- A row is the session of one subscription. The session owns the messages that it has claimed until it is closed or its
-- heartbeat expires.
CREATE TABLE outbox_broker_sessions (
    session_id  BIGINT NOT NULL PRIMARY KEY,
    queue       VARCHAR(255) NOT NULL,
    alive_until DATETIME(6) NOT NULL,
    KEY idx_outbox_broker_sessions_queue (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- The table has one row, which contains the last session id. A session id is never used twice: otherwise a new session
-- would own the messages that an ended session had claimed.
CREATE TABLE outbox_broker_counter (
    one             BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    last_session_id BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
INSERT IGNORE INTO outbox_broker_counter (one, last_session_id) VALUES (1, 0);

-- A row is one message in one queue. `id` defines the order of the queue, and a requeued message keeps its position.
-- `id` is also the delivery tag, so it is never used twice.
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
