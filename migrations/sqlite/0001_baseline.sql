-- The store. Times are TEXT `YYYY-MM-DDTHH:MM:SS.ffffffZ`, which sorts as it reads; money is in minor units.

CREATE TABLE products (
    id          INTEGER PRIMARY KEY,
    tenant_id   INTEGER NOT NULL,
    seller_id   INTEGER NOT NULL,
    title       TEXT NOT NULL,
    price_minor INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('on_sale', 'sold', 'off_shelf')),
    version     INTEGER NOT NULL,
    create_time TEXT NOT NULL,
    update_time TEXT NOT NULL
) STRICT;
CREATE INDEX idx_products_page ON products (tenant_id, status, id);
CREATE INDEX idx_products_tenant ON products (tenant_id, id);

CREATE TABLE orders (
    id            INTEGER PRIMARY KEY,
    order_no      TEXT NOT NULL,
    tenant_id     INTEGER NOT NULL,
    product_id    INTEGER NOT NULL,
    buyer_id      INTEGER NOT NULL,
    seller_id     INTEGER NOT NULL,
    status        TEXT NOT NULL
                  CHECK (status IN ('pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded')),
    cancel_reason TEXT,
    total_minor   INTEGER NOT NULL,
    payable_minor INTEGER NOT NULL,
    coupon_id     INTEGER,
    coupon_minor  INTEGER NOT NULL DEFAULT 0,
    wallet_minor  INTEGER NOT NULL DEFAULT 0,
    points        INTEGER NOT NULL DEFAULT 0,
    refund_id     INTEGER,
    carrier       TEXT,
    tracking_no   TEXT,
    version       INTEGER NOT NULL,
    create_time   TEXT NOT NULL,
    pay_time      TEXT,
    update_time   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_orders_buyer ON orders (tenant_id, buyer_id, id);
CREATE INDEX idx_orders_seller ON orders (tenant_id, seller_id, id);
CREATE INDEX idx_orders_pending ON orders (create_time, id) WHERE status = 'pending';
CREATE INDEX idx_orders_updated ON orders (update_time, id);

CREATE TABLE payments (
    id             INTEGER PRIMARY KEY,
    tenant_id      INTEGER NOT NULL,
    order_id       INTEGER NOT NULL,
    amount_minor   INTEGER NOT NULL,
    currency       TEXT NOT NULL,
    payment_method TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    transaction_id TEXT UNIQUE,
    refund_due     INTEGER NOT NULL CHECK (refund_due IN (0, 1)),
    trace_id       TEXT,
    traceparent    TEXT,
    version        INTEGER NOT NULL,
    create_time    TEXT NOT NULL,
    update_time    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX idx_payments_processing ON payments (tenant_id, order_id) WHERE status = 'PROCESSING';
CREATE INDEX idx_payments_order ON payments (tenant_id, order_id, id);

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

CREATE TABLE consumer_subscriptions (
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

CREATE TABLE relays (
    relay       TEXT PRIMARY KEY,
    alive_until TEXT NOT NULL
) STRICT;

CREATE TABLE id_blocks (
    kind    TEXT PRIMARY KEY,
    next_id INTEGER NOT NULL
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

CREATE TABLE listings (
    tenant_id   INTEGER NOT NULL,
    seller_id   INTEGER NOT NULL,
    product_id  INTEGER NOT NULL,
    taken_by    INTEGER,
    event_id    TEXT NOT NULL,
    update_time TEXT NOT NULL,
    PRIMARY KEY (tenant_id, product_id, seller_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_listings_seller ON listings (tenant_id, seller_id, product_id);

-- Effects: each has a natural key, the order and its transition, whatever event announced it (004 Q5).
CREATE TABLE listing_changes (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    seller_id     INTEGER NOT NULL,
    product_id    INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('OCCUPIED', 'RELEASED')),
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
-- The listing of a product follows from all of its changes.
CREATE INDEX idx_listing_changes_product ON listing_changes (tenant_id, product_id);
CREATE UNIQUE INDEX uk_listing_changes ON listing_changes (tenant_id, order_id, kind);

CREATE TABLE shipments (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    seller_id     INTEGER NOT NULL,
    buyer_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_shipments_seller ON shipments (tenant_id, seller_id, id);
CREATE INDEX idx_shipments_buyer ON shipments (tenant_id, buyer_id, id);
CREATE UNIQUE INDEX uk_shipments ON shipments (tenant_id, order_id);

-- Effects: each has a natural key, the order and its transition, whatever event announced it (004 Q5).
CREATE TABLE notifications (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    user_id       INTEGER NOT NULL,
    side          TEXT NOT NULL CHECK (side IN ('buyer', 'seller')),
    order_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    old_status    TEXT NOT NULL,
    new_status    TEXT NOT NULL,
    changed_at    TEXT NOT NULL,
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_notifications_user ON notifications (tenant_id, user_id, id);
CREATE UNIQUE INDEX uk_notifications ON notifications (tenant_id, order_id, new_status, side);

CREATE TABLE buyer_credit_changes (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     INTEGER NOT NULL,
    buyer_id      INTEGER NOT NULL,
    order_id      INTEGER NOT NULL,
    aggregate_seq INTEGER NOT NULL,
    step          TEXT NOT NULL CHECK (step IN ('COMPLETED', 'CANCELLED_BY_BUYER', 'CANCELLED_BY_TIMEOUT')),
    event_id      TEXT NOT NULL,
    create_time   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_credit_changes ON buyer_credit_changes (tenant_id, order_id, step);

CREATE TABLE buyer_credit (
    tenant_id            INTEGER NOT NULL,
    buyer_id             INTEGER NOT NULL,
    completed            INTEGER NOT NULL,
    cancelled_by_buyer   INTEGER NOT NULL,
    cancelled_by_timeout INTEGER NOT NULL,
    score                INTEGER NOT NULL CHECK (score BETWEEN 0 AND 120),
    last_event_id        TEXT NOT NULL,
    update_time          TEXT NOT NULL,
    PRIMARY KEY (tenant_id, buyer_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE coupons (
    id              INTEGER PRIMARY KEY,
    tenant_id       INTEGER NOT NULL,
    user_id         INTEGER NOT NULL,
    discount_minor  INTEGER NOT NULL,
    min_spend_minor INTEGER NOT NULL,
    expires_at      TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('AVAILABLE', 'LOCKED', 'USED', 'EXPIRED')),
    order_id        INTEGER,
    version         INTEGER NOT NULL,
    create_time     TEXT NOT NULL,
    update_time     TEXT NOT NULL
) STRICT;
CREATE INDEX idx_coupons_user ON coupons (tenant_id, user_id, id);
CREATE INDEX idx_coupons_expiry ON coupons (expires_at, id) WHERE status = 'AVAILABLE';

CREATE TABLE asset_holds (
    tenant_id   INTEGER NOT NULL,
    order_id    INTEGER NOT NULL,
    asset       TEXT NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points')),
    user_id     INTEGER NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    coupon_id   INTEGER,
    status      TEXT NOT NULL CHECK (status IN ('FROZEN', 'COMMITTED', 'RELEASED')),
    reverted    INTEGER NOT NULL CHECK (reverted IN (0, 1)),
    version     INTEGER NOT NULL,
    create_time TEXT NOT NULL,
    update_time TEXT NOT NULL,
    -- The order of assets is not that of their names.
    asset_no    INTEGER GENERATED ALWAYS AS (CASE asset WHEN 'coupon' THEN 0 WHEN 'wallet' THEN 1 ELSE 2 END) STORED,
    PRIMARY KEY (tenant_id, order_id, asset)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_holds_frozen ON asset_holds (create_time, order_id, asset_no) WHERE status = 'FROZEN';
CREATE INDEX idx_holds_user ON asset_holds (tenant_id, user_id, asset, order_id) WHERE status = 'FROZEN';

-- The marketplace's own accounts have no row here: every payment would wait for every other.
CREATE TABLE asset_balances (
    tenant_id   INTEGER NOT NULL,
    user_id     INTEGER NOT NULL,
    purse       TEXT NOT NULL CHECK (purse IN ('wallet', 'points')),
    available   INTEGER NOT NULL,
    frozen      INTEGER NOT NULL,
    debt        INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    update_time TEXT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, purse),
    CHECK (available >= 0 AND frozen >= 0 AND debt >= 0)
) STRICT, WITHOUT ROWID;

-- Operations and entries are only ever added to.
CREATE TABLE asset_operations (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    asset           TEXT NOT NULL CHECK (asset IN ('coupon', 'wallet', 'points', 'cash')),
    kind            TEXT NOT NULL CHECK (kind IN ('DEPOSIT', 'GRANT', 'ISSUE', 'FREEZE', 'COMMIT', 'RELEASE', 'REVERT',
                    'EARN', 'UNEARN', 'CAPTURE', 'PAYOUT')),
    user_id         INTEGER NOT NULL,
    order_id        INTEGER,
    refund_id       INTEGER,
    coupon_id       INTEGER,
    amount          INTEGER NOT NULL CHECK (amount >= 0),
    balance_after   INTEGER,
    event_id        TEXT,
    trace_id        TEXT,
    create_time     TEXT NOT NULL,
    UNIQUE (tenant_id, idempotency_key)
) STRICT;
CREATE INDEX idx_asset_operations_order ON asset_operations (tenant_id, order_id, id);

CREATE TABLE ledger_entries (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    account         TEXT NOT NULL CHECK (account IN ('wallet', 'wallet_hold', 'points', 'points_hold', 'points_debt',
                    'platform', 'gateway', 'points_issued')),
    user_id         INTEGER,
    amount          INTEGER NOT NULL,
    balance_after   INTEGER,
    create_time     TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_ledger_entries ON ledger_entries (tenant_id, idempotency_key, account);
CREATE INDEX idx_ledger_account ON ledger_entries (tenant_id, user_id, account, id);

CREATE TABLE refunds (
    id                INTEGER PRIMARY KEY,
    tenant_id         INTEGER NOT NULL,
    order_id          INTEGER NOT NULL,
    payment_id        INTEGER NOT NULL,
    amount_minor      INTEGER NOT NULL,
    currency          TEXT NOT NULL,
    cause             TEXT NOT NULL CHECK (cause IN ('buyer', 'operator', 'late_payment')),
    reason            TEXT NOT NULL,
    status            TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    attempts          INTEGER NOT NULL,
    next_attempt_time TEXT,
    last_error        TEXT,
    trace_id          TEXT,
    traceparent       TEXT,
    version           INTEGER NOT NULL,
    create_time       TEXT NOT NULL,
    update_time       TEXT NOT NULL
) STRICT;
CREATE INDEX idx_refunds_order ON refunds (tenant_id, order_id, id);
CREATE INDEX idx_refunds_due ON refunds (next_attempt_time, id) WHERE status = 'PROCESSING';
-- No more goes back than came.
CREATE UNIQUE INDEX idx_refunds_payment ON refunds (payment_id) WHERE status <> 'FAILED';

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

-- Only ever added to.
CREATE TABLE audit_log (
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
CREATE INDEX idx_audit_tenant ON audit_log (tenant_id, id);
CREATE INDEX idx_audit_changes ON audit_log (tenant_id, is_change, id);
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
