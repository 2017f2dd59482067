-- The listing of a product stands as all of its changes say, in whatever order they came.
CREATE INDEX idx_listing_changes_product ON listing_changes (tenant_id, product_id);
