-- Sellers decline orders: a refund with the cause `seller`, and whether the product goes off the shelf.

ALTER TABLE refunds
    ADD COLUMN off_shelf BIGINT NOT NULL DEFAULT 0 CHECK (off_shelf IN (0, 1)),
    DROP CONSTRAINT refunds_cause_check,
    ADD CONSTRAINT refunds_cause_check
        CHECK (cause IN ('buyer', 'seller', 'operator', 'late_payment', 'second_capture', 'wrong_amount'));
