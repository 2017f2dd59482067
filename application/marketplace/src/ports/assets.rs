//! Coupons, wallets and points: holds, balances, and the ledger of everything that moved them.
//!
//! **Invariant:** an operation key is unique in its tenant: whatever is tried twice happens once.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{
    Account, Asset, AssetOperation, Balance, Coupon, CouponId, Entry, Hold, OperationKey, OrderId, Posting,
    Purse, UserId,
};

use handover_outbox::ports::{Changed, Numbered, StoreError};

/// An entry of the ledger, with the operation that it is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The operation, as it is kept.
    pub operation: AssetOperation,
    /// The entry.
    pub entry: Entry,
}

/// What one account of a tenant adds up to, over all users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountTotal {
    /// The tenant.
    pub tenant: TenantId,
    /// The account.
    pub account: Account,
    /// The sum of its entries: minor units or points.
    pub total: i64,
}

/// Something in the ledger that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerFlaw {
    /// The entries of an operation do not sum to zero, or there are entries of an operation that is not there.
    Unbalanced {
        /// The tenant.
        tenant: TenantId,
        /// The operation.
        key: OperationKey,
        /// What they sum to.
        sum: i64,
    },
    /// A balance is not what its entries say.
    Drifted {
        /// The tenant.
        tenant: TenantId,
        /// Whose.
        user: UserId,
        /// Which account: `Wallet`, `WalletHold`, `Points`, `PointsHold` or `PointsDebt`.
        account: Account,
        /// What the balance says; a debt as a negative number.
        balance: i64,
        /// What the entries sum to.
        entries: i64,
    },
}

/// Reads assets.
#[handover_macros::wrappable]
#[async_trait]
pub trait AssetQueries: Send {
    /// The coupon, if this tenant has it.
    async fn coupon_by_id(&mut self, tenant: TenantId, id: CouponId) -> Result<Option<Coupon>, StoreError>;

    /// At most `limit` coupons of a user with an id below `before`, greatest id first.
    async fn coupons_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        before: Option<CouponId>,
        limit: u32,
    ) -> Result<Vec<Coupon>, StoreError>;

    /// At most `limit` coupons of any tenant that are `AVAILABLE` and whose `expires_at` is at or before `now`, earliest
    /// first.
    async fn coupons_expired(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<Coupon>, StoreError>;

    /// What a user has in a purse; `None` before the first change.
    async fn balance_of(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
    ) -> Result<Option<Balance>, StoreError>;

    /// The holds of an order, in the order of [`Asset`].
    async fn holds_of(&mut self, tenant: TenantId, order: OrderId) -> Result<Vec<Hold>, StoreError>;

    /// The `FROZEN` holds of a user on an asset, in order of their orders.
    async fn holds_of_user(
        &mut self,
        tenant: TenantId,
        user: UserId,
        asset: Asset,
    ) -> Result<Vec<Hold>, StoreError>;

    /// At most `limit` `FROZEN` holds of any tenant made at or before `created_by`, in the order of (`create_time`,
    /// order, asset), those after `after`.
    async fn holds_frozen(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId, Asset)>,
        limit: u32,
    ) -> Result<Vec<Hold>, StoreError>;

    /// Which of these operations there are, in any order.
    async fn operations_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<AssetOperation>, StoreError>;

    /// The entries under these keys, whether or not their operations are there, in any order.
    async fn entries_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<(OperationKey, Entry)>, StoreError>;

    /// Every operation for this order, in the order in which they were posted.
    async fn operations_of(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<AssetOperation>, StoreError>;

    /// At most `limit` entries of a user's accounts of one purse, numbered below `before`, greatest number first. Entries
    /// whose operation is not there are left out.
    async fn entries_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<LedgerEntry>>, StoreError>;

    /// What every account adds up to, of one tenant (`None`: of all, each by itself), in order of tenant and account.
    async fn account_totals(&mut self, tenant: Option<TenantId>) -> Result<Vec<AccountTotal>, StoreError>;

    /// At most `limit` flaws of a tenant (`None`: of all): unbalanced operations by key, then drifted balances by user.
    /// Reads the whole ledger.
    async fn ledger_flaws(
        &mut self,
        tenant: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<LedgerFlaw>, StoreError>;
}

/// Writes assets.
#[handover_macros::wrappable]
#[async_trait]
pub trait AssetRepo: Send {
    /// Adds a coupon. A taken id MUST be a `Conflict`.
    async fn insert_coupon(&mut self, coupon: &Coupon) -> Result<(), StoreError>;

    /// Replaces the row whose version is `after.version - 1`: one conditional write.
    async fn advance_coupon(&mut self, after: &Coupon) -> Result<Changed, StoreError>;

    /// The holds of these orders on an asset, in any order. Nobody else MUST change them until the unit ends.
    async fn lock_holds(
        &mut self,
        asset: Asset,
        orders: &[(TenantId, OrderId)],
    ) -> Result<Vec<Hold>, StoreError>;

    /// Writes holds: those of version 1 are added, others replace the row whose version is one less. A hold that is there
    /// already, or is not as expected, MUST be a `Conflict`.
    async fn put_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError>;

    /// What these users have in a purse, each once, in any order; one who has nothing yet has an empty balance of version
    /// 0. Nobody else MUST change them until the unit ends, also where there was no row: of units that lock one balance at
    /// the same time, each MUST see what the one before committed.
    async fn lock_balances(
        &mut self,
        purse: Purse,
        users: &[(TenantId, UserId)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Balance>, StoreError>;

    /// Writes balances that this unit has locked, whatever number of versions later than what it saw. A negative amount
    /// MUST be refused by the database itself.
    async fn put_balances(&mut self, balances: &[Balance]) -> Result<(), StoreError>;

    /// Adds operations with their entries, in the order given. A taken key MUST be a `Conflict`, compared byte by byte, and
    /// so MUST be a second entry of an account under one key, where the operation itself is lost; entries that do not
    /// balance MUST be refused (`Backend`).
    async fn post(&mut self, postings: &[Posting]) -> Result<(), StoreError>;
}
