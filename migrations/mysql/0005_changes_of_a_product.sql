-- The listing of a product stands as all of its changes say, in whatever order they came.
ALTER TABLE listing_changes ADD KEY idx_listing_changes_product (tenant_id, product_id);
