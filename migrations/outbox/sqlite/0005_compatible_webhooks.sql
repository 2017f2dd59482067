-- Webhooks: endpoints of tenants, deliveries of events to them, and the attempts at each delivery.

-- A row is an endpoint: a URL of a tenant to which events are sent.
CREATE TABLE webhook_endpoints (
    id                   TEXT PRIMARY KEY NOT NULL,
    tenant_id            INTEGER NOT NULL,
    -- Number that is unique among the endpoints of the tenant; NULL in a deleted endpoint.
    slot                 INTEGER,
    url                  TEXT NOT NULL,
    description          TEXT,
    -- JSON array of patterns.
    event_types          TEXT NOT NULL,
    is_ordered           INTEGER NOT NULL CHECK (is_ordered IN (0, 1)),
    body_form            TEXT NOT NULL CHECK (body_form IN ('THIN', 'FULL', 'UNMASKED')),
    signs_asymmetrically INTEGER NOT NULL CHECK (signs_asymmetrically IN (0, 1)),
    per_second           INTEGER CHECK (per_second > 0),
    max_in_flight        INTEGER NOT NULL CHECK (max_in_flight >= 0),
    -- JSON array of names, and the encrypted names and values.
    header_names         TEXT,
    headers_sealed       TEXT,
    -- JSON array of encrypted secrets with their public keys and the times until which they are used.
    secrets              TEXT NOT NULL,
    status               TEXT NOT NULL CHECK (status IN ('ENABLED', 'DISABLED', 'DELETED')),
    disabled_reason      TEXT,
    version              INTEGER NOT NULL,
    create_time          TEXT NOT NULL,
    update_time          TEXT NOT NULL,
    failing_since        TEXT,
    failures             INTEGER NOT NULL DEFAULT 0,
    last_success_time    TEXT,
    paused_until         TEXT,
    -- Time of the next attempt that the limit of attempts per second permits.
    next_attempt_time    TEXT
) STRICT;
CREATE INDEX idx_webhook_endpoints_status ON webhook_endpoints (status, id);
CREATE UNIQUE INDEX uk_webhook_endpoints_slot ON webhook_endpoints (tenant_id, slot);

-- A row is the delivery of one event to one endpoint. The next attempt is due at `due_time`; while a process has claimed
-- the delivery, `due_time` is the end of the claim.
CREATE TABLE webhook_deliveries (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint_id TEXT NOT NULL,
    tenant_id   INTEGER NOT NULL,
    event_id    TEXT NOT NULL,
    redelivery  INTEGER NOT NULL,
    event_type  TEXT NOT NULL,
    order_key   TEXT NOT NULL,
    body        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('PENDING', 'DELIVERED', 'DEAD', 'CANCELLED')),
    due_time    TEXT NOT NULL,
    claim_id    TEXT,
    claims      INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0,
    -- 1 if a claim found that an earlier delivery with the same `order_key` is pending. Claims skip the row until such a
    -- delivery is settled.
    is_blocked  INTEGER NOT NULL DEFAULT 0 CHECK (is_blocked IN (0, 1)),
    last_status INTEGER,
    last_error  TEXT,
    create_time TEXT NOT NULL,
    settle_time TEXT
) STRICT;
-- The index also finds the deliveries of an event.
CREATE UNIQUE INDEX uk_webhook_deliveries ON webhook_deliveries (event_id, endpoint_id, redelivery);
CREATE INDEX idx_webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX idx_webhook_deliveries_due ON webhook_deliveries (endpoint_id, due_time, id)
    WHERE state = 'PENDING' AND is_blocked = 0;
CREATE INDEX idx_webhook_deliveries_order ON webhook_deliveries (endpoint_id, order_key, id) WHERE state = 'PENDING';
CREATE INDEX idx_webhook_deliveries_claimed ON webhook_deliveries (endpoint_id, due_time) WHERE claim_id IS NOT NULL;
CREATE INDEX idx_webhook_deliveries_dead ON webhook_deliveries (endpoint_id, id) WHERE state = 'DEAD';

-- A row is one attempt at a delivery. Append-only.
CREATE TABLE webhook_attempts (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id  INTEGER NOT NULL,
    endpoint_id  TEXT NOT NULL,
    attempt_time TEXT NOT NULL,
    duration_ms  INTEGER NOT NULL,
    outcome      TEXT NOT NULL CHECK (outcome IN ('DELIVERED', 'FAILED', 'INTERRUPTED')),
    status       INTEGER,
    error        TEXT,
    response     TEXT
) STRICT;
CREATE INDEX idx_webhook_attempts_delivery ON webhook_attempts (delivery_id, id);
-- Covering index: the attempts of a period are counted without reading the table.
CREATE INDEX idx_webhook_attempts_endpoint ON webhook_attempts (endpoint_id, attempt_time, outcome);
