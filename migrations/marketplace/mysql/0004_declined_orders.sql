-- Sellers decline orders: a refund with the cause `seller`, and whether the product goes off the shelf.
-- `0002_gateway_reports.sql` explains the CHECK constraint.

ALTER TABLE refunds
    ADD COLUMN off_shelf BIGINT NOT NULL DEFAULT 0 CHECK (off_shelf IN (0, 1)),
    /*M! MODIFY COLUMN cause VARCHAR(16) NOT NULL *//*!80017 DROP CHECK refunds_cause, ADD CONSTRAINT refunds_cause */
    CHECK (cause IN ('buyer', 'seller', 'operator', 'late_payment', 'second_capture', 'wrong_amount'));
