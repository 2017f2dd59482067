//! Coupons, wallets and points: implementation of the asset ports.

mod balances;
mod coupons;
mod holds;
mod ledger;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use marketplace::ports::{
    AccountTotal, AssetQueries, AssetRepo, ExpiredCoupon, FrozenHold, LedgerEntry, LedgerPage, LedgerPosition,
};
use marketplace_domain::{
    Asset, AssetOperation, Balance, Coupon, CouponId, Entry, Hold, OperationKey, OrderId, Posting, Purse,
    UserId,
};

use crate::of_orders::of_orders;
use crate::sorted::sorted_unique;
use crate::tables::{Lock, MarketRows as _};
use crate::unit::MarketUnit;

#[async_trait]
impl AssetQueries for MarketUnit {
    async fn coupon_by_id(&mut self, tenant: TenantId, id: CouponId) -> Result<Option<Coupon>, StoreError> {
        self.read(|statement| statement.coupons().get(&id).filter(|coupon| coupon.tenant == tenant).cloned())
            .await
    }

    async fn coupons_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        before: Option<CouponId>,
        limit: u32,
    ) -> Result<Vec<Coupon>, StoreError> {
        self.read(|statement| coupons::page(statement, (tenant, user), before, limit)).await
    }

    async fn coupons_expired(
        &mut self,
        now: DateTime<Utc>,
        after: Option<(DateTime<Utc>, CouponId)>,
        limit: u32,
    ) -> Result<Vec<ExpiredCoupon>, StoreError> {
        self.read(|statement| coupons::expired(statement, now, after, limit)).await
    }

    async fn balance_of(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
    ) -> Result<Option<Balance>, StoreError> {
        self.read(|statement| statement.balances().get(&(tenant, user, purse)).cloned()).await
    }

    async fn holds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Hold>, StoreError> {
        self.read(|statement| of_orders(tenant, orders, |order| holds::of_order(statement, order))).await
    }

    async fn holds_of_user(
        &mut self,
        tenant: TenantId,
        user: UserId,
        asset: Asset,
    ) -> Result<Vec<Hold>, StoreError> {
        self.read(|statement| holds::of_user(statement, (tenant, user, asset))).await
    }

    async fn holds_frozen(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId, Asset)>,
        limit: u32,
    ) -> Result<Vec<FrozenHold>, StoreError> {
        self.read(|statement| holds::frozen(statement, created_by, after, limit)).await
    }

    async fn operations_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<AssetOperation>, StoreError> {
        self.read(|statement| ledger::by_key(statement, tenant, keys)).await
    }

    async fn entries_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<(OperationKey, Entry)>, StoreError> {
        self.read(|statement| ledger::entries_by_key(statement, tenant, keys)).await
    }

    async fn operations_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<AssetOperation>, StoreError> {
        self.read(|statement| of_orders(tenant, orders, |order| ledger::of_order(statement, order))).await
    }

    async fn entries_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<LedgerEntry>>, StoreError> {
        self.read(|statement| ledger::page(statement, (tenant, user, purse), before, limit)).await
    }

    async fn account_totals(&mut self, tenant: Option<TenantId>) -> Result<Vec<AccountTotal>, StoreError> {
        self.read(|statement| ledger::totals(statement, tenant)).await
    }

    async fn compare_ledger(
        &mut self,
        tenant: Option<TenantId>,
        from: LedgerPosition,
        limit: u32,
    ) -> Result<LedgerPage, StoreError> {
        self.read(|statement| ledger::compare(statement, tenant, from, limit)).await
    }
}

#[async_trait]
impl AssetRepo for MarketUnit {
    async fn insert_coupon(&mut self, coupon: &Coupon) -> Result<(), StoreError> {
        self.write(vec![Lock::Coupon(coupon.id)], |statement| coupons::insert(statement, coupon)).await
    }

    async fn advance_coupon(&mut self, after: &Coupon) -> Result<Changed, StoreError> {
        self.write(vec![Lock::Coupon(after.id)], |statement| Ok(coupons::advance(statement, after))).await
    }

    async fn lock_holds(
        &mut self,
        asset: Asset,
        orders: &[(TenantId, OrderId)],
    ) -> Result<Vec<Hold>, StoreError> {
        let keys = sorted_unique(orders.iter().map(|&(tenant, order)| (tenant, order, asset)));
        let locks = keys.iter().map(|&(tenant, order, asset)| Lock::Hold(tenant, order, asset)).collect();
        self.write(locks, |statement| {
            let holds = statement.holds();
            Ok(keys.iter().filter_map(|key| holds.get(key)).cloned().collect())
        })
        .await
    }

    async fn put_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        let keys = sorted_unique(holds.iter().map(|hold| (hold.tenant, hold.order, hold.asset)));
        let locks = keys.into_iter().map(|(tenant, order, asset)| Lock::Hold(tenant, order, asset)).collect();
        self.write(locks, |statement| holds.iter().try_for_each(|hold| holds::put(statement, hold))).await
    }

    async fn lock_balances(
        &mut self,
        purse: Purse,
        users: &[(TenantId, UserId)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Balance>, StoreError> {
        let keys = sorted_unique(users.iter().map(|&(tenant, user)| (tenant, user, purse)));
        let locks = keys.iter().map(|&(tenant, user, purse)| Lock::Balance(tenant, user, purse)).collect();
        self.write(locks, |statement| {
            let balances = statement.balances();
            let found = |key: &(TenantId, UserId, Purse)| {
                balances.get(key).cloned().unwrap_or_else(|| Balance::empty(key.0, key.1, purse, now))
            };
            Ok(keys.iter().map(found).collect())
        })
        .await
    }

    async fn put_balances(&mut self, balances: &[Balance]) -> Result<(), StoreError> {
        let keys =
            sorted_unique(balances.iter().map(|balance| (balance.tenant, balance.user, balance.purse)));
        let locks =
            keys.into_iter().map(|(tenant, user, purse)| Lock::Balance(tenant, user, purse)).collect();
        self.write(locks, |statement| {
            balances.iter().try_for_each(|balance| balances::put(statement, balance))
        })
        .await
    }

    async fn post(&mut self, postings: &[Posting]) -> Result<(), StoreError> {
        let keys = postings.iter().map(|posting| (posting.operation.tenant, posting.operation.key.clone()));
        let locks =
            sorted_unique(keys).into_iter().map(|(tenant, key)| Lock::Operation(tenant, key)).collect();
        self.write(locks, |statement| {
            postings.iter().try_for_each(|posting| ledger::post(statement, posting))
        })
        .await
    }
}
