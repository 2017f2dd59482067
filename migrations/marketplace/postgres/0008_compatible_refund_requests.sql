-- A row is a request of a refund to the gateway. It is inserted in the transaction that counts the request, before it is sent;
-- `refund_version` is the version of the refund after that. `error`: why the gateway did not accept it; NULL: it did, or the process
-- ended before the response. `order_id` is NULL for a refund of an invoice.
CREATE TABLE refund_requests (
    refund_id      BIGINT NOT NULL,
    refund_version BIGINT NOT NULL,
    tenant_id      BIGINT NOT NULL,
    order_id       BIGINT,
    attempt_no     BIGINT NOT NULL,
    request_no     BIGINT NOT NULL,
    sent_time      TIMESTAMPTZ(6) NOT NULL,
    error          TEXT,
    PRIMARY KEY (refund_id, refund_version)
);
-- Texts about a person are found by the orders.
CREATE INDEX idx_refund_requests_order ON refund_requests (order_id);
