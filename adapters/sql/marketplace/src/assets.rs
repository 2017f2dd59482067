//! Assets: coupons, holds, balances and the ledger. Each file contains the statements on its tables.

pub(crate) mod balances;
pub(crate) mod coupons;
pub(crate) mod holds;
mod ledger;
pub(crate) mod operations;

use crate::session::MarketSession;
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

#[async_trait]
impl AssetQueries for MarketSession {
    async fn coupon_by_id(&mut self, tenant: TenantId, id: CouponId) -> Result<Option<Coupon>, StoreError> {
        coupons::by_id(self, tenant, id).await
    }

    async fn coupons_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        before: Option<CouponId>,
        limit: u32,
    ) -> Result<Vec<Coupon>, StoreError> {
        coupons::page(self, tenant, user, before, limit).await
    }

    async fn coupons_expired(
        &mut self,
        now: DateTime<Utc>,
        after: Option<(DateTime<Utc>, CouponId)>,
        limit: u32,
    ) -> Result<Vec<ExpiredCoupon>, StoreError> {
        coupons::expired(self, now, after, limit).await
    }

    async fn balance_of(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
    ) -> Result<Option<Balance>, StoreError> {
        balances::of(self, tenant, user, purse).await
    }

    async fn holds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Hold>, StoreError> {
        holds::of_orders(self, tenant, orders).await
    }

    async fn holds_of_user(
        &mut self,
        tenant: TenantId,
        user: UserId,
        asset: Asset,
    ) -> Result<Vec<Hold>, StoreError> {
        holds::of_user(self, tenant, user, asset).await
    }

    async fn holds_frozen(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId, Asset)>,
        limit: u32,
    ) -> Result<Vec<FrozenHold>, StoreError> {
        holds::frozen(self, created_by, after, limit).await
    }

    async fn operations_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<AssetOperation>, StoreError> {
        operations::operations_by_key(self, tenant, keys).await
    }

    async fn entries_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<(OperationKey, Entry)>, StoreError> {
        operations::entries_by_key(self, tenant, keys).await
    }

    async fn operations_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<AssetOperation>, StoreError> {
        operations::of_orders(self, tenant, orders).await
    }

    async fn entries_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<LedgerEntry>>, StoreError> {
        operations::entries_page(self, (tenant, user), purse, before, limit).await
    }

    async fn account_totals(&mut self, tenant: Option<TenantId>) -> Result<Vec<AccountTotal>, StoreError> {
        ledger::totals(self, tenant).await
    }

    async fn compare_ledger(
        &mut self,
        tenant: Option<TenantId>,
        from: LedgerPosition,
        limit: u32,
    ) -> Result<LedgerPage, StoreError> {
        ledger::compare(self, tenant, from, limit).await
    }
}

#[async_trait]
impl AssetRepo for MarketSession {
    async fn insert_coupon(&mut self, coupon: &Coupon) -> Result<(), StoreError> {
        coupons::insert(self, coupon).await
    }

    async fn advance_coupon(&mut self, after: &Coupon) -> Result<Changed, StoreError> {
        coupons::advance(self, after).await
    }

    async fn lock_holds(
        &mut self,
        asset: Asset,
        orders: &[(TenantId, OrderId)],
    ) -> Result<Vec<Hold>, StoreError> {
        holds::lock(self, asset, orders).await
    }

    async fn put_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        holds::put(self, holds).await
    }

    async fn lock_balances(
        &mut self,
        purse: Purse,
        users: &[(TenantId, UserId)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Balance>, StoreError> {
        balances::lock(self, purse, users, now).await
    }

    async fn put_balances(&mut self, balances: &[Balance]) -> Result<(), StoreError> {
        balances::put(self, balances).await
    }

    async fn post(&mut self, postings: &[Posting]) -> Result<(), StoreError> {
        operations::post(self, postings).await
    }
}
