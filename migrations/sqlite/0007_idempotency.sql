-- Requests under an idempotency key (spec §4): who is at work on one, and what it was answered.
CREATE TABLE idempotency_keys (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    user_id         INTEGER NOT NULL,
    route           TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    body_hash       TEXT NOT NULL,
    token           TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS')),
    lease_until     TEXT,
    answer_status   INTEGER,
    answer          TEXT,
    trace_id        TEXT NOT NULL,
    create_time     TEXT NOT NULL,
    expire_time     TEXT NOT NULL,
    UNIQUE (tenant_id, user_id, route, idempotency_key)
) STRICT;
CREATE INDEX idx_idempotency_expire ON idempotency_keys (expire_time, id);
