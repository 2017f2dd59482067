use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{Product, ProductId, ProductStatus};

use handover_outbox::ports::{Changed, StoreError};

/// Reads products.
#[handover_macros::wrappable]
#[async_trait]
pub trait ProductQueries: Send {
    /// The product, if it belongs to this tenant.
    async fn product_by_id(&mut self, tenant: TenantId, id: ProductId)
    -> Result<Option<Product>, StoreError>;

    /// The products with these ids that belong to this tenant, in any sequence.
    async fn products_by_id(
        &mut self,
        tenant: TenantId,
        ids: &[ProductId],
    ) -> Result<Vec<Product>, StoreError>;

    /// At most `limit` products of a tenant (`None`: of all) with an id below `before`, greatest id first.
    async fn newest_products(
        &mut self,
        tenant: Option<TenantId>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError>;

    /// At most `limit` products of a tenant in this status (`None`: in any), with an id below `before`, greatest id
    /// first.
    async fn products_page(
        &mut self,
        tenant: TenantId,
        status: Option<ProductStatus>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError>;
}

/// Writes products.
#[handover_macros::wrappable]
#[async_trait]
pub trait ProductRepo: Send {
    /// Inserts a product. An id in use MUST be a `Conflict`.
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write.
    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError>;
}
