-- What operators look at and do.

-- A FAILED event that was released holds back no later one of its aggregate.
ALTER TABLE outbox_events ADD COLUMN released_time TEXT
    CHECK (released_time IS NULL OR julianday(released_time) IS NOT NULL);
DROP INDEX idx_outbox_failed;
CREATE INDEX idx_outbox_failed ON outbox_events
    (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id, event_type)
    WHERE status = 'FAILED' AND released_time IS NULL;

-- A CHECK cannot be changed in place. Ids stay, and none is used twice.
CREATE TABLE dead_letters_rebuilt (
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
INSERT INTO dead_letters_rebuilt
    (id, queue, message_key, tenant_id, event_type, trace_id, body, reason, died_at, status)
SELECT id, queue, message_key, tenant_id, event_type, trace_id, body, reason, died_at, status
FROM dead_letters ORDER BY id;
DELETE FROM sqlite_sequence WHERE name = 'dead_letters_rebuilt';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'dead_letters_rebuilt', seq FROM sqlite_sequence WHERE name = 'dead_letters';
DROP TABLE dead_letters;
ALTER TABLE dead_letters_rebuilt RENAME TO dead_letters;
CREATE INDEX idx_dead_letters_key ON dead_letters (message_key);
CREATE INDEX idx_dead_letters_tenant ON dead_letters (tenant_id, id);
CREATE INDEX idx_dead_letters_undecided ON dead_letters (tenant_id) WHERE status IN ('OPEN', 'REPLAYING');

-- Only ever added to.
CREATE TABLE audit_log (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id   INTEGER NOT NULL,
    actor       TEXT NOT NULL,
    action      TEXT NOT NULL,
    selection   TEXT NOT NULL,
    changed     INTEGER NOT NULL CHECK (changed >= 0),
    reason      TEXT,
    trace_id    TEXT NOT NULL,
    create_time TEXT NOT NULL
) STRICT;
CREATE INDEX idx_audit_tenant ON audit_log (tenant_id, id);
CREATE TRIGGER audit_log_never_updated BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
CREATE TRIGGER audit_log_never_deleted BEFORE DELETE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
-- REPLACE deletes what is in its way, and no trigger hears of it.
CREATE TRIGGER audit_log_never_replaced BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;

CREATE INDEX idx_payments_order ON payments (tenant_id, order_id, id);
CREATE INDEX idx_consume_event ON event_consume_log (event_id);
-- All that is not done: few rows of many.
CREATE INDEX idx_consume_open ON event_consume_log (status, id)
    WHERE status IN ('PROCESSING', 'WAITING', 'FAILED', 'DEAD');
-- Counted without a look at the rows themselves.
CREATE INDEX idx_consume_count ON event_consume_log (consumer, status, tenant_id);
