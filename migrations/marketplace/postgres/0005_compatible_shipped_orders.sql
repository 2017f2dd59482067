-- Shipped orders that their buyer does not complete are completed automatically.
--
-- A shipped order has no other change before it is completed: `update_time` is the time at which it was shipped.
CREATE INDEX idx_orders_shipped ON orders (update_time, id) WHERE status = 'shipped';
