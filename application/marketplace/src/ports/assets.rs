//! Coupons, wallets and points: holds, balances, and the ledger of all operations on them.
//!
//! **Invariant:** an operation key is unique in its tenant, so a repeated operation takes effect once.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{
    Account, Asset, AssetOperation, Balance, Coupon, CouponId, Entry, Hold, OperationKey, OrderId, Posting,
    Purse, UserId,
};

use handover_outbox::ports::{Changed, Numbered, StoreError};

/// A ledger entry with its operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    pub operation: AssetOperation,
    pub entry: Entry,
}

/// Sum of the ledger entries of a tenant on one kind of account, over all users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountTotal {
    pub tenant: TenantId,
    pub account: Account,
    /// Sum of the entries, in minor units or points.
    pub total: i64,
}

/// A discrepancy in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerInconsistency {
    /// The entries of an operation do not sum to zero, or entries exist whose operation is missing.
    Unbalanced {
        tenant: TenantId,
        key: OperationKey,
        /// Sum of the entries of the operation.
        sum: i64,
    },
    /// A balance differs from the sum of its entries.
    Drifted {
        tenant: TenantId,
        user: UserId,
        /// `Wallet`, `WalletHold`, `Points`, `PointsHold` or `PointsDebt`.
        account: Account,
        /// Value in the balance row; a debt is negative.
        balance: i64,
        /// Sum of the entries on the account.
        entries: i64,
    },
}

/// Position in a comparison of the ledger: first the operations of all entries by id, then all balances by tenant and user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerPosition {
    /// After the entry with this id.
    Entries(i64),
    /// After this tenant, or, with a user, after this user of it; `None`: before the first tenant.
    Balances(Option<(TenantId, Option<UserId>)>),
}

impl LedgerPosition {
    /// Before the first entry.
    pub const START: LedgerPosition = LedgerPosition::Entries(0);
}

/// A part of a comparison of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPage {
    /// Operations by tenant and key, or balances by tenant, user and account.
    pub inconsistencies: Vec<LedgerInconsistency>,
    /// Position after this part; `None` after the last one.
    pub next: Option<LedgerPosition>,
}

impl LedgerPage {
    /// Adds the discrepancies that an earlier part does not have.
    pub(crate) fn add_to(self, found: &mut Vec<LedgerInconsistency>) {
        for inconsistency in self.inconsistencies {
            if !found.contains(&inconsistency) {
                found.push(inconsistency);
            }
        }
    }
}

/// At most `limit` discrepancies of the whole ledger of a tenant (`None`: of all).
pub async fn ledger_inconsistencies<V: AssetQueries + ?Sized>(
    view: &mut V,
    tenant: Option<TenantId>,
    limit: usize,
) -> Result<Vec<LedgerInconsistency>, StoreError> {
    const PER_PAGE: u32 = 1_000;
    let mut found = Vec::new();
    let mut position = Some(LedgerPosition::START);
    while let Some(from) = position.filter(|_| found.len() < limit) {
        let page = view.compare_ledger(tenant, from, PER_PAGE).await?;
        position = page.next;
        page.add_to(&mut found);
    }
    found.truncate(limit);
    Ok(found)
}

/// A frozen hold that a job has to examine. Only its key and its time of creation, so that a row with an unreadable value
/// delays no other hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrozenHold {
    pub tenant: TenantId,
    pub order: OrderId,
    pub asset: Asset,
    pub create_time: DateTime<Utc>,
}

impl FrozenHold {
    /// Sort key of [`AssetQueries::holds_frozen`].
    pub const fn position(&self) -> (DateTime<Utc>, OrderId, Asset) {
        (self.create_time, self.order, self.asset)
    }
}

/// A coupon that a job has to set to `EXPIRED`. Only its key and its expiry time, as for a [`FrozenHold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredCoupon {
    pub tenant: TenantId,
    pub id: CouponId,
    pub expires_at: DateTime<Utc>,
}

impl ExpiredCoupon {
    /// Sort key of [`AssetQueries::coupons_expired`].
    pub const fn position(&self) -> (DateTime<Utc>, CouponId) {
        (self.expires_at, self.id)
    }
}

/// Reads assets.
#[handover_macros::wrappable]
#[async_trait]
pub trait AssetQueries: Send {
    /// The coupon, if it belongs to this tenant.
    async fn coupon_by_id(&mut self, tenant: TenantId, id: CouponId) -> Result<Option<Coupon>, StoreError>;

    /// At most `limit` coupons of a user with an id below `before`, greatest id first.
    async fn coupons_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        before: Option<CouponId>,
        limit: u32,
    ) -> Result<Vec<Coupon>, StoreError>;

    /// At most `limit` coupons of any tenant that are `AVAILABLE` and have an `expires_at` at or before `now`, after the
    /// position `after` in the order of `expires_at` and id.
    async fn coupons_expired(
        &mut self,
        now: DateTime<Utc>,
        after: Option<(DateTime<Utc>, CouponId)>,
        limit: u32,
    ) -> Result<Vec<ExpiredCoupon>, StoreError>;

    /// Balance of a user; `None` before its first change.
    async fn balance_of(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
    ) -> Result<Option<Balance>, StoreError>;

    /// The holds of these orders, sorted by order and [`Asset`].
    async fn holds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Hold>, StoreError>;

    /// The `FROZEN` holds of a user on an asset, sorted by order id.
    async fn holds_of_user(
        &mut self,
        tenant: TenantId,
        user: UserId,
        asset: Asset,
    ) -> Result<Vec<Hold>, StoreError>;

    /// At most `limit` `FROZEN` holds of any tenant created at or before `created_by`, sorted by (`create_time`, order,
    /// asset), starting after `after`.
    async fn holds_frozen(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId, Asset)>,
        limit: u32,
    ) -> Result<Vec<FrozenHold>, StoreError>;

    /// The existing operations with these keys, in any sequence.
    async fn operations_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<AssetOperation>, StoreError>;

    /// The entries with these keys, in any sequence, even if their operations are missing.
    async fn entries_by_key(
        &mut self,
        tenant: TenantId,
        keys: &[OperationKey],
    ) -> Result<Vec<(OperationKey, Entry)>, StoreError>;

    /// Every operation of these orders, sorted by order; those of one order in the sequence in which they were posted.
    async fn operations_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<AssetOperation>, StoreError>;

    /// At most `limit` entries of a user's accounts of one purse, with an id below `before`, greatest id first. Entries
    /// without an operation are omitted.
    async fn entries_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        purse: Purse,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<LedgerEntry>>, StoreError>;

    /// Sum of every account of one tenant (`None`: of each tenant), sorted by tenant and account.
    async fn account_totals(&mut self, tenant: Option<TenantId>) -> Result<Vec<AccountTotal>, StoreError>;

    /// Compares the operations of the next `limit` entries, or the next `limit` balances, of a tenant (`None`: of all) from a
    /// position on. An operation is compared with all its entries, so it is in two parts if its entries are. The entries and balances of
    /// one user MUST be in one part and read at the same time.
    async fn compare_ledger(
        &mut self,
        tenant: Option<TenantId>,
        from: LedgerPosition,
        limit: u32,
    ) -> Result<LedgerPage, StoreError>;
}

/// Writes assets.
#[handover_macros::wrappable]
#[async_trait]
pub trait AssetRepo: Send {
    /// Inserts a coupon. An id in use MUST be a `Conflict`.
    async fn insert_coupon(&mut self, coupon: &Coupon) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write.
    async fn advance_coupon(&mut self, after: &Coupon) -> Result<Changed, StoreError>;

    /// Locks and returns the holds of these orders on an asset, in any sequence. Other transactions MUST NOT be able
    /// to change them until this unit of work ends.
    async fn lock_holds(
        &mut self,
        asset: Asset,
        orders: &[(TenantId, OrderId)],
    ) -> Result<Vec<Hold>, StoreError>;

    /// Writes holds: inserts those of version 1, and replaces the others if the stored version is one less. The insert
    /// of an existing hold, and a stored version other than expected, MUST be a `Conflict`.
    async fn put_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError>;

    /// Locks and returns the balances of these users, one per user, in any sequence. A user without a row gets an empty
    /// balance of version 0. Other transactions MUST NOT be able to change them until this unit of work ends, even if
    /// there was no row: units of work that lock the same balance concurrently MUST run one after another, and each MUST read
    /// what the previous one committed.
    async fn lock_balances(
        &mut self,
        purse: Purse,
        users: &[(TenantId, UserId)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Balance>, StoreError>;

    /// Writes balances that this unit of work has locked. The difference between the new version and the version that
    /// was read may be greater than 1. The database itself MUST reject a negative amount.
    async fn put_balances(&mut self, balances: &[Balance]) -> Result<(), StoreError>;

    /// Inserts operations with their entries, in the given sequence. A key in use, compared byte by byte, MUST be a
    /// `Conflict`. A second entry of an account with the same key MUST be a `Conflict` even if the row of the operation is
    /// lost. Entries that do not balance MUST be rejected (`Backend`).
    async fn post(&mut self, postings: &[Posting]) -> Result<(), StoreError>;
}
