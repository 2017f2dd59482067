//! Coupons, wallets, points and refunds.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::*;
use handover_domain::*;

use super::{Flawed, Unit};

reads! {
    AssetQueries {
        fn coupon_by_id(tenant: TenantId, id: CouponId) -> Option<Coupon>;
        fn coupons_page(tenant: TenantId, user: UserId, before: Option<CouponId>, limit: u32) -> Vec<Coupon>;
        fn coupons_expired(now: DateTime<Utc>, limit: u32) -> Vec<Coupon>;
        fn balance_of(tenant: TenantId, user: UserId, purse: Purse) -> Option<Balance>;
        fn holds_of(tenant: TenantId, order: OrderId) -> Vec<Hold>;
        fn holds_of_user(tenant: TenantId, user: UserId, asset: Asset) -> Vec<Hold>;
        fn holds_frozen(
            created_by: DateTime<Utc>,
            after: Option<(DateTime<Utc>, OrderId, Asset)>,
            limit: u32
        ) -> Vec<Hold>;
        fn operations_by_key(tenant: TenantId, keys: &[OperationKey]) -> Vec<AssetOperation>;
        fn entries_by_key(tenant: TenantId, keys: &[OperationKey]) -> Vec<(OperationKey, Entry)>;
        fn operations_of(tenant: TenantId, order: OrderId) -> Vec<AssetOperation>;
        fn entries_page(
            tenant: TenantId,
            user: UserId,
            purse: Purse,
            before: Option<i64>,
            limit: u32
        ) -> Vec<Numbered<LedgerEntry>>;
        fn account_totals(tenant: Option<TenantId>) -> Vec<AccountTotal>;
        fn ledger_flaws(tenant: Option<TenantId>, limit: u32) -> Vec<LedgerFlaw>;
    }
}

writes! {
    AssetRepo {
        fn insert_coupon(coupon: &Coupon) -> ();
        fn advance_coupon(after: &Coupon) -> Changed;
        fn lock_holds(asset: Asset, orders: &[(TenantId, OrderId)]) -> Vec<Hold>;
        fn put_holds(holds: &[Hold]) -> ();
        fn lock_balances(purse: Purse, users: &[(TenantId, UserId)], now: DateTime<Utc>) -> Vec<Balance>;
        fn put_balances(balances: &[Balance]) -> ();
        fn post(postings: &[Posting]) -> ();
    }
}

reads! {
    RefundQueries {
        fn refund_by_id(id: RefundId) -> Option<Refund>;
        fn refunds_of(tenant: TenantId, order: OrderId) -> Vec<Refund>;
        fn refunds_due(now: DateTime<Utc>, limit: u32) -> Vec<Refund>;
    }
}

writes! {
    RefundRepo {
        fn insert_refund(refund: &Refund) -> ();
        fn advance_refund(after: &Refund) -> Changed;
    }
}
