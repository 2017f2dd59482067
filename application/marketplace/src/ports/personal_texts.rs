use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{OrderId, ProductId};

use super::RequestRecord;
use handover_outbox::ports::{Numbered, StoreError};

/// Reads texts about persons.
#[handover_macros::wrappable]
#[async_trait]
pub trait PersonalTextQueries: Send {
    /// At most `limit` requests with a stored response of any user, with an id above `after`, smallest id first.
    async fn stored_responses(
        &mut self,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<RequestRecord>>, StoreError>;
}

/// Masks texts about persons. Each method returns the number of changed rows. A row whose texts are masked MUST NOT be
/// changed, a value that is NULL stays NULL, and no other value of a row changes, unless it is named here.
#[handover_macros::wrappable]
#[async_trait]
pub trait PersonalTextRepo: Send {
    /// Masks the titles of these products of the tenant, and increments their versions.
    async fn erase_titles(&mut self, tenant: TenantId, products: &[ProductId]) -> Result<u64, StoreError>;

    /// Masks the texts about these orders of the tenant: carrier and tracking number; payment methods outside of the closed
    /// set; reasons and errors of the refunds that are not `PROCESSING` (the reason only if a person wrote it); errors and
    /// reasons of the gateway's reports that are not `OPEN`.
    async fn erase_order_texts(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<u64, StoreError>;

    /// Masks the reasons with which these findings were acknowledged, and increments their versions.
    async fn erase_finding_reasons(&mut self, findings: &[i64]) -> Result<u64, StoreError>;
}
