//! Faults of coupons, wallets and points.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps, yield_to_others};

impl<U: MarketView + ?Sized> AssetQueriesWrapper for Faulty<U> {
    async fn coupons_expired(
        &mut self,
        now: DateTime<Utc>,
        after: Option<(DateTime<Utc>, CouponId)>,
        limit: u32,
    ) -> Result<Vec<ExpiredCoupon>, StoreError> {
        let late = self.has(Fault::CouponsExpireLate);
        let now = if late { now - TimeDelta::microseconds(1) } else { now };
        let after = if self.has(Fault::ExpiredCouponPagesRestart) { None } else { after };
        self.inner().coupons_expired(now, after, limit).await
    }

    async fn balance_of(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
    ) -> Result<Option<Balance>, StoreError> {
        let found = self.inner().balance_of(tenant, user, purse).await?;
        if found.is_none() && self.has(Fault::BalancesLeakToOtherTenants) {
            return self.inner().balance_of(TenantId::DEFAULT, user, purse).await;
        }
        Ok(found)
    }

    async fn holds_frozen(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId, Asset)>,
        limit: u32,
    ) -> Result<Vec<FrozenHold>, StoreError> {
        let after = if self.has(Fault::FrozenHoldPagesRestart) { None } else { after };
        self.inner().holds_frozen(created_by, after, limit).await
    }

    async fn operations_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<AssetOperation>, StoreError> {
        let found = self.inner().operations_by_key(tenant, keys).await?;
        if found.is_empty() && self.has(Fault::OperationsLeakToOtherTenants) {
            return self.inner().operations_by_key(TenantId::DEFAULT, keys).await;
        }
        Ok(found)
    }

    async fn compare_ledger(
        &mut self,
        tenant: Option<TenantId>,
        from: LedgerPosition,
        limit: u32,
    ) -> Result<LedgerPage, StoreError> {
        let page = self.inner().compare_ledger(tenant, from, limit).await?;
        if self.has(Fault::DriftIsNotReported) {
            return Ok(LedgerPage { inconsistencies: Vec::new(), ..page });
        }
        let is_last = self.has(Fault::LedgerComparisonEndsEarly) && !page.inconsistencies.is_empty();
        Ok(LedgerPage { next: page.next.filter(|_| !is_last), ..page })
    }
}

impl AssetRepoWrapper for Unit {
    async fn put_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        if !self.has(Fault::HoldsOverwriteOthers) {
            return self.inner().put_holds(holds).await;
        }
        for hold in holds {
            let existing = self.inner().lock_holds(hold.asset, &[(hold.tenant, hold.order)]).await?;
            let version = existing.first().map_or(1, |existing| existing.version + 1);
            self.inner().put_holds(&[Hold { version, ..hold.clone() }]).await?;
        }
        Ok(())
    }

    async fn lock_balances(
        &mut self,
        purse: Purse,
        users: &[(TenantId, UserId)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Balance>, StoreError> {
        if !self.has(Fault::BalancesAreNotLocked) {
            return self.inner().lock_balances(purse, users, now).await;
        }
        let users: std::collections::BTreeSet<_> = users.iter().copied().collect();
        let mut read = Vec::new();
        for (tenant, user) in users {
            let existing = self.inner().balance_of(tenant, user, purse).await?;
            read.push(existing.unwrap_or_else(|| Balance::empty(tenant, user, purse, now)));
        }
        yield_to_others().await;
        Ok(read)
    }

    async fn put_balances(&mut self, balances: &[Balance]) -> Result<(), StoreError> {
        let negative = |balance: &Balance| balance.available.min(balance.frozen).min(balance.debt) < 0;
        if self.has(Fault::NegativeBalancesAreIgnored) && balances.iter().any(negative) {
            return Ok(());
        }
        self.inner().put_balances(balances).await
    }

    async fn post(&mut self, postings: &[Posting]) -> Result<(), StoreError> {
        if self.has(Fault::UnbalancedPostingsAreIgnored) && !postings.iter().all(Posting::is_balanced) {
            return Ok(());
        }
        if !self.has(Fault::TakenOperationKeysAreIgnored) {
            return self.inner().post(postings).await;
        }
        self.serialize().await;
        for posting in postings {
            let Posting { operation: AssetOperation { tenant, key, .. }, .. } = posting;
            let existing = self.inner().operations_by_key(*tenant, std::slice::from_ref(key)).await?;
            if existing.is_empty() {
                self.inner().post(std::slice::from_ref(posting)).await?;
            }
        }
        Ok(())
    }
}
