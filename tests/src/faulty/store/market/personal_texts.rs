//! Faults of texts about persons.

use handover_events::TenantId;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> PersonalTextQueriesWrapper for Faulty<U> {
    async fn stored_responses(
        &mut self,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<RequestRecord>>, StoreError> {
        let after = after.filter(|_| !self.has(Fault::ResponsesStartAgain));
        self.inner().stored_responses(after, limit).await
    }
}

impl PersonalTextRepoWrapper for Unit {
    async fn erase_titles(&mut self, tenant: TenantId, products: &[ProductId]) -> Result<u64, StoreError> {
        if self.has(Fault::TitlesAreNotErased) {
            return Ok(0);
        }
        self.inner().erase_titles(tenant, products).await
    }

    async fn erase_order_texts(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<u64, StoreError> {
        let changed = self.inner().erase_order_texts(tenant, orders).await?;
        Ok(if self.has(Fault::OrderTextsAreCountedAgain) { changed.max(1) } else { changed })
    }

    async fn erase_finding_reasons(&mut self, findings: &[i64]) -> Result<u64, StoreError> {
        if self.has(Fault::FindingReasonsAreNotErased) {
            return Ok(0);
        }
        self.inner().erase_finding_reasons(findings).await
    }
}
