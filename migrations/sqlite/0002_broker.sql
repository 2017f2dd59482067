-- The database broker: one row per queue and message.

CREATE TABLE broker_queues (
    queue           TEXT PRIMARY KEY,
    ttl_ms          INTEGER,
    dead_letter_key TEXT
) STRICT;

CREATE TABLE broker_bindings (
    queue   TEXT NOT NULL REFERENCES broker_queues (queue),
    pattern TEXT NOT NULL,
    PRIMARY KEY (queue, pattern)
) STRICT, WITHOUT ROWID;

-- A subscription. What it has claimed is its own until its heartbeat runs out.
CREATE TABLE broker_sessions (
    session_id  INTEGER PRIMARY KEY,
    queue       TEXT NOT NULL,
    alive_until TEXT NOT NULL
) STRICT;

-- `id` is the place in the queue; a message that is returned keeps it. Never used twice, as it is the delivery tag too.
CREATE TABLE broker_messages (
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
CREATE INDEX idx_broker_ready ON broker_messages (queue, id) WHERE session_id IS NULL;
CREATE INDEX idx_broker_claimed ON broker_messages (session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX idx_broker_expiry ON broker_messages (expires_at, id) WHERE expires_at IS NOT NULL AND session_id IS NULL;
