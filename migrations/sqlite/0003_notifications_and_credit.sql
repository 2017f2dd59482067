-- What status-sync and buyer-credit leave behind, and the pages of users.

-- No unique event_id in the two below: a doubled effect must show.
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
CREATE INDEX idx_notifications_order ON notifications (tenant_id, order_id);
CREATE INDEX idx_notifications_user ON notifications (tenant_id, user_id, id);

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
CREATE INDEX idx_credit_changes_order ON buyer_credit_changes (tenant_id, order_id);

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

CREATE INDEX idx_shipments_seller ON shipments (tenant_id, seller_id, id);
CREATE INDEX idx_shipments_buyer ON shipments (tenant_id, buyer_id, id);
