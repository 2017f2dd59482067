-- Tables of the outbox.
--
-- Times are TEXT in the format `YYYY-MM-DDTHH:MM:SS.ffffffZ` (UTC), so that their text order is their time order.

-- A row is one event and its publishing status. An operator may insert a row by SQL: it must set the NOT NULL columns
-- that have neither a default nor a generated value. CHECK constraints reject values that the relay cannot read, such
-- as dates that do not exist: `date()` accepts February 31 unless it has a modifier, and `julianday()` accepts hour 24,
-- which belongs to the next day.
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
    -- Time at which an operator released the row: a released FAILED row does not block later events of its aggregate.
    released_time   TEXT
                    CHECK (released_time IS NULL OR (julianday(released_time) IS NOT NULL AND date(substr(released_time, 1, 10), '+0 days') IS substr(released_time, 1, 10) AND substr(released_time, 12, 2) < '24')),
    -- Same value as `Partition::of` in the domain. Both terms are reduced modulo 64 before they are added, because
    -- otherwise their sum could exceed 64 bits: SQLite would compute a REAL.
    partition_no    INTEGER NOT NULL
                    GENERATED ALWAYS AS (((aggregate_id % 64 + tenant_id % 64 * 31) % 64 + 64) % 64) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX uk_event_id ON outbox_events (event_id);
CREATE INDEX idx_status_time ON outbox_events (status, next_retry_time);
CREATE INDEX idx_aggregate ON outbox_events (aggregate_type, aggregate_id);
CREATE INDEX idx_type_time ON outbox_events (event_type, create_time);
-- The relay scans this index in id order. The index contains all columns of the relay's conditions, so that SQLite does
-- not read the table row of an event that is not due or is blocked.
CREATE INDEX idx_outbox_pending ON outbox_events
    (id, next_retry_time, aggregate_type, aggregate_id, tenant_id, aggregate_seq, event_type)
    WHERE status IN ('NEW', 'RETRY');
-- In the next three indexes the relay looks up earlier events of the aggregate of a pending row: RETRY rows that are
-- not due, FAILED rows that were not released, and pending rows with a smaller `aggregate_seq` but a greater id.
CREATE INDEX idx_outbox_waiting ON outbox_events
    (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id, next_retry_time, event_type)
    WHERE status = 'RETRY' AND next_retry_time IS NOT NULL;
CREATE INDEX idx_outbox_failed ON outbox_events
    (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id, event_type)
    WHERE status = 'FAILED' AND released_time IS NULL;
CREATE INDEX idx_outbox_order ON outbox_events (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id)
    WHERE status IN ('NEW', 'RETRY');
CREATE INDEX idx_outbox_sent ON outbox_events (sent_time) WHERE sent_time IS NOT NULL;

-- These triggers convert times in other formats, as an operator may write them by SQL (`2026-02-04 10:30:00`,
-- `datetime('now')`), to the format above, with the precision of a millisecond. Otherwise comparisons with other times
-- would be wrong.
CREATE TRIGGER outbox_events_times_inserted AFTER INSERT ON outbox_events
WHEN NEW.create_time NOT GLOB '????-??-??T??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]Z'
    OR NEW.update_time NOT GLOB '????-??-??T??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]Z'
    OR NEW.next_retry_time NOT GLOB '????-??-??T??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]Z'
BEGIN
    UPDATE outbox_events SET
        create_time = strftime('%Y-%m-%dT%H:%M:%f000Z', create_time),
        update_time = strftime('%Y-%m-%dT%H:%M:%f000Z', update_time),
        next_retry_time = strftime('%Y-%m-%dT%H:%M:%f000Z', next_retry_time)
    WHERE id = NEW.id;
END;
CREATE TRIGGER outbox_events_times_updated AFTER UPDATE OF create_time, update_time, next_retry_time ON outbox_events
WHEN NEW.create_time NOT GLOB '????-??-??T??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]Z'
    OR NEW.update_time NOT GLOB '????-??-??T??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]Z'
    OR NEW.next_retry_time NOT GLOB '????-??-??T??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]Z'
BEGIN
    UPDATE outbox_events SET
        create_time = strftime('%Y-%m-%dT%H:%M:%f000Z', create_time),
        update_time = strftime('%Y-%m-%dT%H:%M:%f000Z', update_time),
        next_retry_time = strftime('%Y-%m-%dT%H:%M:%f000Z', next_retry_time)
    WHERE id = NEW.id;
END;

-- A row is an entry of the history of an event: a fact that the outbox row of the event does not contain, such as the
-- error of an earlier attempt, an earlier publisher confirm, a redrive or an ignored duplicate. Append-only.
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

-- A row records the state of one event at one consumer.
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
-- Operators list the records that are not SUCCESS. These are few, so the index stays small.
CREATE INDEX idx_consume_open ON event_consume_log (status, id)
    WHERE status IN ('PROCESSING', 'WAITING', 'FAILED', 'DEAD');
-- Covering index: the records per consumer and status are counted without reading the table.
CREATE INDEX idx_consume_count ON event_consume_log (consumer, status, tenant_id);

-- A row is the subscription of one consumer: the outbox id after which it receives events, and the time up to which its
-- consume log was checked for events that the broker lost.
CREATE TABLE outbox_consumer_subscriptions (
    consumer      TEXT PRIMARY KEY,
    after_id      INTEGER NOT NULL,
    checked_until TEXT NOT NULL
) STRICT;

-- A row is the lease of one partition. All 64 rows always exist, so that a relay acquires a partition with an UPDATE.
CREATE TABLE outbox_partitions (
    partition_no INTEGER PRIMARY KEY CHECK (partition_no BETWEEN 0 AND 63),
    owner        TEXT,
    epoch        INTEGER NOT NULL DEFAULT 0,
    lease_until  TEXT
) STRICT;
INSERT INTO outbox_partitions (partition_no)
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 63) SELECT n FROM numbers;

-- A row is the heartbeat of one relay.
CREATE TABLE outbox_relays (
    relay       TEXT PRIMARY KEY,
    alive_until TEXT NOT NULL
) STRICT;

-- A row is a message that no consumer could process, parked for an operator.
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

-- A row records one call of an operator. Append-only: triggers reject every change of existing rows.
CREATE TABLE outbox_audit_log (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id   INTEGER NOT NULL,
    actor       TEXT NOT NULL,
    action      TEXT NOT NULL,
    selection   TEXT NOT NULL,
    changed     INTEGER NOT NULL CHECK (changed >= 0),
    -- Number of rows that the call returned or selected for a change.
    matched     INTEGER NOT NULL DEFAULT 0 CHECK (matched >= 0),
    reason      TEXT,
    trace_id    TEXT NOT NULL,
    create_time TEXT NOT NULL,
    -- 1 if the call changed rows: `idx_outbox_audit_changes` finds these calls without reading the other entries.
    is_change   INTEGER GENERATED ALWAYS AS (changed > 0) VIRTUAL
) STRICT;
CREATE INDEX idx_outbox_audit_tenant ON outbox_audit_log (tenant_id, id);
CREATE INDEX idx_outbox_audit_changes ON outbox_audit_log (tenant_id, is_change, id);
CREATE TRIGGER outbox_audit_log_never_updated BEFORE UPDATE ON outbox_audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER outbox_audit_log_never_deleted BEFORE DELETE ON outbox_audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- REPLACE deletes the conflicting row without firing DELETE triggers, unless `recursive_triggers` is on. Therefore this
-- trigger rejects an INSERT with an existing id.
CREATE TRIGGER outbox_audit_log_never_replaced BEFORE INSERT ON outbox_audit_log
WHEN EXISTS (SELECT 1 FROM outbox_audit_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;

-- Tables of the database broker.

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

-- A row is the session of one subscription. The session owns the messages that it has claimed until it is closed or its
-- heartbeat expires.
CREATE TABLE outbox_broker_sessions (
    session_id  INTEGER PRIMARY KEY,
    queue       TEXT NOT NULL,
    alive_until TEXT NOT NULL
) STRICT;

-- The table has one row, which contains the last session id. A session id is never used twice: otherwise a new session
-- would own the messages that an ended session had claimed.
CREATE TABLE outbox_broker_counter (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    last_session_id INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_broker_counter (one, last_session_id) VALUES (1, 0);

-- A row is one message in one queue. `id` defines the order of the queue, and a requeued message keeps its position.
-- `id` is also the delivery tag, so it is never used twice.
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
