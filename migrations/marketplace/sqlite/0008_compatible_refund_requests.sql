-- A row is a request of a refund to the gateway. It is inserted in the transaction that counts the request, before it is sent;
-- `refund_version` is the version of the refund after that. `error`: why the gateway did not accept it; NULL: it did, or the process
-- ended before the response. `order_id` is NULL for a refund of an invoice.
CREATE TABLE refund_requests (
    refund_id      INTEGER NOT NULL,
    refund_version INTEGER NOT NULL,
    tenant_id      INTEGER NOT NULL,
    order_id       INTEGER,
    attempt_no     INTEGER NOT NULL,
    request_no     INTEGER NOT NULL,
    sent_time      TEXT NOT NULL,
    error          TEXT,
    PRIMARY KEY (refund_id, refund_version)
) STRICT, WITHOUT ROWID;
-- Texts about a person are found by the orders.
CREATE INDEX idx_refund_requests_order ON refund_requests (order_id);
