-- A seller's open shipment tasks are found by the orders that are not shipped yet, which are few beside all orders of the seller.
CREATE INDEX idx_orders_open ON orders (tenant_id, seller_id, id) WHERE status IN ('pending', 'paid');
