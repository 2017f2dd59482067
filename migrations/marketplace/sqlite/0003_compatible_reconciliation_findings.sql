-- Findings of reconciliations. `tenant_id` is 0 if the compared row names no tenant, because a unique key does not compare
-- NULL. `row_id` is the id of the product, gateway report, dead letter or outbox row of a finding without an order.

CREATE TABLE reconciliation_findings (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id        INTEGER NOT NULL,
    kind             TEXT NOT NULL,
    subject          TEXT NOT NULL,
    order_id         INTEGER,
    row_id           INTEGER,
    detail           TEXT NOT NULL,
    state            TEXT NOT NULL CHECK (state IN ('OPEN', 'ACKNOWLEDGED', 'REPAIRED', 'RESOLVED')),
    first_seen       TEXT NOT NULL,
    last_seen        TEXT NOT NULL,
    acknowledged_by  TEXT,
    reason           TEXT,
    acknowledge_time TEXT,
    closed_time      TEXT,
    version          INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_findings_subject ON reconciliation_findings (tenant_id, kind, subject);
CREATE INDEX idx_findings_kind ON reconciliation_findings (state, kind);
CREATE INDEX idx_findings_state ON reconciliation_findings (state, id);
CREATE INDEX idx_findings_tenant ON reconciliation_findings (tenant_id, id);
CREATE INDEX idx_findings_page ON reconciliation_findings (tenant_id, state, id);
