//! Faults of the effects that consumers write.

use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps, yield_to_others};

impl<U: MarketView + ?Sized> EffectQueriesWrapper for Faulty<U> {
    async fn listing_changes_of_products(
        &mut self,
        tenant: TenantId,
        products: &[ProductId],
    ) -> Result<Vec<ListingChange>, StoreError> {
        let mut found = self.inner().listing_changes_of_products(tenant, products).await?;
        if self.has(Fault::ListingChangesOfProductsAreSortedByOrder) {
            found.sort_by_key(|change| change.order);
        }
        Ok(found)
    }

    async fn listings_page(
        &mut self,
        tenant: TenantId,
        seller: UserId,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<ListingEntry>, StoreError> {
        let repeats = self.has(Fault::PagesRepeatLastRow);
        let before =
            before.map(|id| if repeats { ProductId::try_from(id.get() + 1).unwrap_or(id) } else { id });
        self.inner().listings_page(tenant, seller, before, limit).await
    }

    async fn shipments_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        state: Option<ShipmentState>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ListedShipment>>, StoreError> {
        let before = self.first_below(before);
        let state = state.filter(|_| !self.has(Fault::ShipmentPagesIgnoreState));
        self.inner().shipments_page(tenant, user, side, state, before, limit).await
    }
}

impl EffectRepoWrapper for Unit {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        for change in changes {
            let applied = self.inner().listing_changes(change.tenant, &[change.order]).await?;
            let is_first = applied.is_empty() && change.kind == ListingChangeKind::Released;
            let skipped = (self.has(Fault::EffectsAreDeduplicated) && applied.contains(change))
                || (self.has(Fault::FirstListingReleaseIsIgnored) && is_first);
            if !skipped {
                self.inner().change_listings(std::slice::from_ref(change)).await?;
            }
        }
        Ok(())
    }
}

impl<U: MarketView + ?Sized> NotificationQueriesWrapper for Faulty<U> {
    async fn notifications_about(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Notification>, StoreError> {
        let found = self.inner().notifications_about(tenant, orders).await?;
        if found.is_empty() && self.has(Fault::NotificationsLeakToOtherTenants) {
            return self.inner().notifications_about(TenantId::DEFAULT, orders).await;
        }
        Ok(found)
    }

    async fn notifications_page(
        &mut self,
        tenant: TenantId,
        recipient: UserId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Notification>>, StoreError> {
        let before = self.first_below(before);
        self.inner().notifications_page(tenant, recipient, before, limit).await
    }
}

impl NotificationRepoWrapper for Unit {
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        if !self.has(Fault::NotificationsAreDeduplicated) {
            return self.inner().notify(notifications).await;
        }
        for one in notifications {
            if !self.inner().notifications_about(one.tenant, &[one.order]).await?.contains(one) {
                self.inner().notify(std::slice::from_ref(one)).await?;
            }
        }
        Ok(())
    }
}

impl<U: MarketView + ?Sized> CreditQueriesWrapper for Faulty<U> {
    async fn credit_of(
        &mut self,
        tenant: TenantId,
        buyer: UserId,
    ) -> Result<Option<BuyerCredit>, StoreError> {
        let mut found = self.inner().credit_of(tenant, buyer).await?;
        if found.is_none() && self.has(Fault::CreditLeaksToOtherTenants) {
            found = self.inner().credit_of(TenantId::DEFAULT, buyer).await?;
        }
        if let Some(credit) = &mut found
            && self.has(Fault::ScoresHaveNoUpperLimit)
            && credit.score == CreditCounts::MAX_SCORE
        {
            credit.score = CreditCounts::INITIAL_SCORE + credit.counts.completed;
        }
        Ok(found)
    }
}

impl CreditRepoWrapper for Unit {
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError> {
        if self.has(Fault::CreditIsCountedFromStaleRead)
            && let [change] = changes
        {
            let read = self.inner().credit_of(change.tenant, change.buyer).await?;
            yield_to_others().await;
            self.serialize().await;
            if self.inner().credit_of(change.tenant, change.buyer).await? != read {
                // The fault: this change would overwrite the concurrent one, so one of the two is not counted.
                return Ok(());
            }
        }
        if !self.has(Fault::CreditIsCountedOncePerEvent) {
            return self.inner().change_credit(changes).await;
        }
        for change in changes {
            if !self.inner().credit_changes(change.tenant, &[change.order]).await?.contains(change) {
                self.inner().change_credit(std::slice::from_ref(change)).await?;
            }
        }
        Ok(())
    }
}
