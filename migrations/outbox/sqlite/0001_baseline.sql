-- The outbox. Times are TEXT `YYYY-MM-DDTHH:MM:SS.ffffffZ`, which sorts as it reads.

-- Columns without a default are those a row inserted by hand has to name. The checks keep out what the relay could
-- not read. Without a modifier `date` takes February 31, which no calendar has; hour 24 is of the next day.
CREATE TABLE outbox_events (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id        TEXT NOT NULL
                    CHECK (length(event_id) BETWEEN 1 AND 64 AND event_id NOT GLOB '*[^!-~]*'),
    event_type      TEXT NOT NULL,
    aggregate_type  TEXT NOT NULL,
    aggregate_id    INTEGER NOT NULL,
    payload         TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'NEW' CHECK (status IN ('NEW', 'RETRY', 'SENT', 'FAILED')),
    retry_count     INTEGER NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 4294967295),
    next_retry_time TEXT
                    CHECK (next_retry_time IS NULL OR (julianday(next_retry_time) IS NOT NULL AND date(substr(next_retry_time, 1, 10), '+0 days') IS substr(next_retry_time, 1, 10) AND substr(next_retry_time, 12, 2) < '24')),
    create_time     TEXT NOT NULL
                    CHECK (julianday(create_time) IS NOT NULL AND date(substr(create_time, 1, 10), '+0 days') IS substr(create_time, 1, 10) AND substr(create_time, 12, 2) < '24'),
    update_time     TEXT NOT NULL
                    CHECK (julianday(update_time) IS NOT NULL AND date(substr(update_time, 1, 10), '+0 days') IS substr(update_time, 1, 10) AND substr(update_time, 12, 2) < '24'),
    tenant_id       INTEGER NOT NULL DEFAULT 1 CHECK (tenant_id BETWEEN 1 AND 9007199254740991),
    aggregate_seq   INTEGER NOT NULL DEFAULT 0,
    metadata        TEXT CHECK (metadata IS NULL OR json_type(metadata) = 'object'),
    max_retry_count INTEGER NOT NULL DEFAULT 3 CHECK (max_retry_count BETWEEN 0 AND 4294967295),
    last_error      TEXT,
    sent_time       TEXT
                    CHECK (sent_time IS NULL OR (julianday(sent_time) IS NOT NULL AND date(substr(sent_time, 1, 10), '+0 days') IS substr(sent_time, 1, 10) AND substr(sent_time, 12, 2) < '24')),
    -- A FAILED event that was released holds back no later one of its aggregate.
    released_time   TEXT
                    CHECK (released_time IS NULL OR (julianday(released_time) IS NOT NULL AND date(substr(released_time, 1, 10), '+0 days') IS substr(released_time, 1, 10) AND substr(released_time, 12, 2) < '24')),
    -- The domain's `Partition::of`. Both terms are reduced first, as the sum of two great integers would become a REAL.
    partition_no    INTEGER NOT NULL
                    GENERATED ALWAYS AS (((aggregate_id % 64 + tenant_id % 64 * 31) % 64 + 64) % 64) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX uk_event_id ON outbox_events (event_id);
CREATE INDEX idx_status_time ON outbox_events (status, next_retry_time);
CREATE INDEX idx_aggregate ON outbox_events (aggregate_type, aggregate_id);
CREATE INDEX idx_type_time ON outbox_events (event_type, create_time);
-- What the relay scans, in its order, with all it decides by: rows that are held back cost no look at the table.
CREATE INDEX idx_outbox_pending ON outbox_events
    (id, next_retry_time, aggregate_type, aggregate_id, tenant_id, aggregate_seq, event_type)
    WHERE status IN ('NEW', 'RETRY');
-- What may stand before a pending row: those that wait for their time, those given up, those out of order.
CREATE INDEX idx_outbox_waiting ON outbox_events
    (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id, next_retry_time, event_type)
    WHERE status = 'RETRY' AND next_retry_time IS NOT NULL;
CREATE INDEX idx_outbox_failed ON outbox_events
    (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id, event_type)
    WHERE status = 'FAILED' AND released_time IS NULL;
CREATE INDEX idx_outbox_order ON outbox_events (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id)
    WHERE status IN ('NEW', 'RETRY');
CREATE INDEX idx_outbox_sent ON outbox_events (sent_time) WHERE sent_time IS NOT NULL;

-- Times written by hand (`2026-02-04 10:30:00`, `datetime('now')`) become ours, or they would not compare with ours.
CREATE TRIGGER outbox_events_times_inserted AFTER INSERT ON outbox_events
WHEN length(NEW.create_time) <> 27 OR length(NEW.update_time) <> 27 OR length(NEW.next_retry_time) <> 27
BEGIN
    UPDATE outbox_events SET
        create_time = strftime('%Y-%m-%dT%H:%M:%f000Z', create_time),
        update_time = strftime('%Y-%m-%dT%H:%M:%f000Z', update_time),
        next_retry_time = strftime('%Y-%m-%dT%H:%M:%f000Z', next_retry_time)
    WHERE id = NEW.id;
END;
CREATE TRIGGER outbox_events_times_updated AFTER UPDATE OF next_retry_time ON outbox_events
WHEN length(NEW.next_retry_time) <> 27
BEGIN
    UPDATE outbox_events SET next_retry_time = strftime('%Y-%m-%dT%H:%M:%f000Z', next_retry_time)
    WHERE id = NEW.id;
END;

-- What a row of the outbox no longer says of itself. Only ever added to.
CREATE TABLE outbox_history (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id   INTEGER NOT NULL,
    event_id    TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('RETRY', 'FAILED', 'SENT', 'REDRIVEN', 'DUPLICATE')),
    consumer    TEXT,
    attempts    INTEGER NOT NULL,
    detail      TEXT,
    create_time TEXT NOT NULL
) STRICT;
CREATE INDEX idx_outbox_history ON outbox_history (event_id, id);

CREATE TABLE event_consume_log (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id        TEXT NOT NULL,
    event_type      TEXT NOT NULL,
    consumer        TEXT NOT NULL,
    consume_time    TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('PROCESSING', 'WAITING', 'SUCCESS', 'FAILED', 'DEAD')),
    attempts        INTEGER NOT NULL,
    cost_ms         INTEGER NOT NULL,
    error_message   TEXT,
    idempotency_key TEXT,
    consume_result  TEXT,
    payload_hash    TEXT NOT NULL,
    trace_id        TEXT NOT NULL,
    tenant_id       INTEGER NOT NULL,
    lease_until     TEXT,
    next_retry_time TEXT,
    aggregate_type  TEXT NOT NULL,
    aggregate_id    INTEGER NOT NULL,
    aggregate_seq   INTEGER NOT NULL,
    UNIQUE (consumer, event_id)
) STRICT;
CREATE INDEX idx_consume_unsettled ON event_consume_log (consumer, consume_time)
    WHERE status IN ('PROCESSING', 'WAITING', 'FAILED');
CREATE INDEX idx_consume_event ON event_consume_log (event_id);
-- Everything that is not applied: few rows of many.
CREATE INDEX idx_consume_open ON event_consume_log (status, id)
    WHERE status IN ('PROCESSING', 'WAITING', 'FAILED', 'DEAD');
-- Counts read the index alone.
CREATE INDEX idx_consume_count ON event_consume_log (consumer, status, tenant_id);

CREATE TABLE outbox_consumer_subscriptions (
    consumer      TEXT PRIMARY KEY,
    after_id      INTEGER NOT NULL,
    checked_until TEXT NOT NULL
) STRICT;

-- Every partition has its row from the first day: taking one is an UPDATE.
CREATE TABLE outbox_partitions (
    partition_no INTEGER PRIMARY KEY CHECK (partition_no BETWEEN 0 AND 63),
    owner        TEXT,
    epoch        INTEGER NOT NULL DEFAULT 0,
    lease_until  TEXT
) STRICT;
INSERT INTO outbox_partitions (partition_no)
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 63) SELECT n FROM numbers;

CREATE TABLE outbox_relays (
    relay       TEXT PRIMARY KEY,
    alive_until TEXT NOT NULL
) STRICT;

CREATE TABLE dead_letters (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    queue       TEXT NOT NULL,
    message_key TEXT NOT NULL,
    tenant_id   INTEGER NOT NULL,
    event_type  TEXT,
    trace_id    TEXT,
    body        TEXT NOT NULL,
    reason      TEXT NOT NULL,
    died_at     TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('OPEN', 'REPLAYING', 'REPLAYED', 'DISCARDED')),
    decided_at  TEXT,
    note        TEXT,
    UNIQUE (queue, message_key)
) STRICT;
CREATE INDEX idx_dead_letters_key ON dead_letters (message_key);
CREATE INDEX idx_dead_letters_tenant ON dead_letters (tenant_id, id);
CREATE INDEX idx_dead_letters_undecided ON dead_letters (tenant_id, id) WHERE status IN ('OPEN', 'REPLAYING');

-- Only ever added to.
CREATE TABLE outbox_audit_log (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id   INTEGER NOT NULL,
    actor       TEXT NOT NULL,
    action      TEXT NOT NULL,
    selection   TEXT NOT NULL,
    changed     INTEGER NOT NULL CHECK (changed >= 0),
    -- How many rows an entry showed or chose to change.
    matched     INTEGER NOT NULL DEFAULT 0 CHECK (matched >= 0),
    reason      TEXT,
    trace_id    TEXT NOT NULL,
    create_time TEXT NOT NULL,
    -- Changes are found among the reads by an index of their own.
    is_change   INTEGER GENERATED ALWAYS AS (changed > 0) VIRTUAL
) STRICT;
CREATE INDEX idx_outbox_audit_tenant ON outbox_audit_log (tenant_id, id);
CREATE INDEX idx_outbox_audit_changes ON outbox_audit_log (tenant_id, is_change, id);
CREATE TRIGGER outbox_audit_log_never_updated BEFORE UPDATE ON outbox_audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
CREATE TRIGGER outbox_audit_log_never_deleted BEFORE DELETE ON outbox_audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
-- REPLACE deletes what is in its way, and no trigger hears of it.
CREATE TRIGGER outbox_audit_log_never_replaced BEFORE INSERT ON outbox_audit_log
WHEN EXISTS (SELECT 1 FROM outbox_audit_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;

-- The database broker: one row per queue and message.

CREATE TABLE outbox_broker_queues (
    queue           TEXT PRIMARY KEY,
    ttl_ms          INTEGER,
    dead_letter_key TEXT
) STRICT;

CREATE TABLE outbox_broker_bindings (
    queue   TEXT NOT NULL REFERENCES outbox_broker_queues (queue),
    pattern TEXT NOT NULL,
    PRIMARY KEY (queue, pattern)
) STRICT, WITHOUT ROWID;

-- A subscription. What it has claimed is its own until its heartbeat runs out.
CREATE TABLE outbox_broker_sessions (
    session_id  INTEGER PRIMARY KEY,
    queue       TEXT NOT NULL,
    alive_until TEXT NOT NULL
) STRICT;

-- The last id of a session: never used twice, since what an ended session had claimed must not look like another's.
CREATE TABLE outbox_broker_counter (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    last_session_id INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_broker_counter (one, last_session_id) VALUES (1, 0);

-- `id` is the place in the queue; a message that is returned keeps it. Never used twice, as it is the delivery tag too.
CREATE TABLE outbox_broker_messages (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    queue          TEXT NOT NULL,
    message_id     TEXT,
    kind           TEXT,
    correlation_id TEXT,
    headers        TEXT NOT NULL,
    body           TEXT NOT NULL,
    expires_at     TEXT,
    session_id     INTEGER,
    redelivered    INTEGER NOT NULL DEFAULT 0 CHECK (redelivered IN (0, 1)),
    died_in        TEXT
) STRICT;
CREATE INDEX idx_outbox_broker_ready ON outbox_broker_messages (queue, id) WHERE session_id IS NULL;
CREATE INDEX idx_outbox_broker_claimed ON outbox_broker_messages (session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX idx_outbox_broker_expiry ON outbox_broker_messages (expires_at, id) WHERE expires_at IS NOT NULL AND session_id IS NULL;
