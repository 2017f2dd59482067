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
    version        INTEGER NOT NULL,
    create_time    TEXT NOT NULL,
    update_time    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX idx_payments_processing ON payments (tenant_id, order_id) WHERE status = 'PROCESSING';

-- Columns without a default are those a row inserted by hand has to name. The checks keep out what the relay could
-- not read: one bad row would stop all of them.
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
    next_retry_time TEXT CHECK (next_retry_time IS NULL OR julianday(next_retry_time) IS NOT NULL),
    create_time     TEXT NOT NULL CHECK (julianday(create_time) IS NOT NULL),
    update_time     TEXT NOT NULL CHECK (julianday(update_time) IS NOT NULL),
    tenant_id       INTEGER NOT NULL DEFAULT 1 CHECK (tenant_id BETWEEN 1 AND 9007199254740991),
    aggregate_seq   INTEGER NOT NULL DEFAULT 0,
    metadata        TEXT CHECK (metadata IS NULL OR json_type(metadata) = 'object'),
    max_retry_count INTEGER NOT NULL DEFAULT 3 CHECK (max_retry_count BETWEEN 0 AND 4294967295),
    last_error      TEXT,
    sent_time       TEXT,
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
    WHERE status IN ('NEW', 'RETRY') AND next_retry_time IS NOT NULL;
CREATE INDEX idx_outbox_failed ON outbox_events
    (aggregate_type, aggregate_id, tenant_id, aggregate_seq, id, event_type)
    WHERE status = 'FAILED';
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

CREATE TABLE consumer_subscriptions (
    consumer      TEXT PRIMARY KEY,
    since         TEXT NOT NULL,
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
    status      TEXT NOT NULL CHECK (status IN ('OPEN', 'REPLAYED', 'DISCARDED')),
    UNIQUE (queue, message_key)
) STRICT;

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

-- No unique event_id in the two below: a doubled effect must show.
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
CREATE INDEX idx_listing_changes_order ON listing_changes (tenant_id, order_id);

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
CREATE INDEX idx_shipments_order ON shipments (tenant_id, order_id);
