//! Asset accounts of one unit of work: holds, balances and coupons are read together, changed in memory by the rules of
//! the domain, and written together. Holds and balances are locked; a coupon is written only if its version has not
//! changed.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{
    Asset, AssetOperation, AssetRefusal, Balance, Coupon, CouponId, Entry, Hold, OperationKey, OrderId,
    Posting, Purse, UserId,
};

use crate::ports::Work;
use handover_outbox::ports::{Changed, StoreError};

/// The asset of one user for one order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) tenant: TenantId,
    pub(crate) order: OrderId,
    pub(crate) user: UserId,
    pub(crate) asset: Asset,
}

impl Subject {
    pub(super) fn hold_key(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }
}

/// Rows to read. Holds and balances are also locked.
#[derive(Debug, Default)]
pub(crate) struct RowSelection {
    /// Holds of these orders.
    pub(crate) orders: BTreeSet<(TenantId, OrderId)>,
    /// Balances of these users; ignored for coupons.
    pub(crate) users: BTreeSet<(TenantId, UserId)>,
    /// Operations with these keys, if they exist.
    pub(crate) keys: BTreeSet<(TenantId, OperationKey)>,
    /// Coupons to read in addition to those of the holds.
    pub(crate) coupons: BTreeSet<(TenantId, CouponId)>,
}

/// A row, the version that was read, and whether it must be written.
struct TrackedRow<R> {
    read_version: Option<i64>,
    row: R,
    changed: bool,
}

impl<R> TrackedRow<R> {
    /// The version to write: several changes in one unit of work increase the version only once.
    fn version(&self) -> i64 {
        self.read_version.map_or(1, |version| version + 1)
    }
}

/// Accounts of one asset in a unit of work.
pub(crate) struct AssetAccounts {
    asset: Asset,
    pub(super) now: DateTime<Utc>,
    operations: BTreeMap<(TenantId, OperationKey), AssetOperation>,
    holds: BTreeMap<(TenantId, OrderId), TrackedRow<Hold>>,
    balances: BTreeMap<(TenantId, UserId), TrackedRow<Balance>>,
    coupons: BTreeMap<(TenantId, CouponId), TrackedRow<Coupon>>,
    postings: Vec<Posting>,
}

/// The purse of an asset; `None` for an asset without balances.
const fn purse(asset: Asset) -> Option<Purse> {
    match asset {
        Asset::Wallet => Some(Purse::Wallet),
        Asset::Points => Some(Purse::Points),
        Asset::Coupon | Asset::Cash => None,
    }
}

impl AssetAccounts {
    pub(crate) async fn open(
        unit: &mut Work,
        asset: Asset,
        selection: RowSelection,
        now: DateTime<Utc>,
    ) -> Result<AssetAccounts, StoreError> {
        let mut accounts = AssetAccounts {
            asset,
            now,
            operations: BTreeMap::new(),
            holds: BTreeMap::new(),
            balances: BTreeMap::new(),
            coupons: BTreeMap::new(),
            postings: Vec::new(),
        };
        let mut coupons = selection.coupons;
        if !selection.orders.is_empty() {
            let orders: Vec<_> = selection.orders.into_iter().collect();
            for hold in unit.lock_holds(asset, &orders).await? {
                coupons.extend(hold.coupon.map(|coupon| (hold.tenant, coupon)));
                let tracked = TrackedRow { read_version: Some(hold.version), row: hold, changed: false };
                accounts.holds.insert((tracked.row.tenant, tracked.row.order), tracked);
            }
        }
        if let (Some(purse), false) = (purse(asset), selection.users.is_empty()) {
            let users: Vec<_> = selection.users.into_iter().collect();
            for balance in unit.lock_balances(purse, &users, now).await? {
                let tracked =
                    TrackedRow { read_version: Some(balance.version), row: balance, changed: false };
                accounts.balances.insert((tracked.row.tenant, tracked.row.user), tracked);
            }
        }
        for (tenant, id) in coupons {
            if let Some(coupon) = unit.coupon_by_id(tenant, id).await? {
                let tracked = TrackedRow { read_version: Some(coupon.version), row: coupon, changed: false };
                accounts.coupons.insert((tenant, id), tracked);
            }
        }
        // The operations are read after the rows are locked: a concurrent unit of work that held the same locks has
        // ended by then, and its operations are visible.
        let mut keys: BTreeMap<TenantId, Vec<OperationKey>> = BTreeMap::new();
        for (tenant, key) in selection.keys {
            keys.entry(tenant).or_default().push(key);
        }
        for (tenant, keys) in keys {
            for operation in unit.operations_by_key(tenant, &keys).await? {
                accounts.operations.insert((tenant, operation.key.clone()), operation);
            }
        }
        Ok(accounts)
    }

    /// The hold of an order, with the changes of this unit of work.
    pub(crate) fn hold(&self, order: (TenantId, OrderId)) -> Option<&Hold> {
        self.holds.get(&order).map(|tracked| &tracked.row)
    }

    /// The operation with this key: stored before, or added in this unit of work.
    pub(crate) fn operation(&self, tenant: TenantId, key: &OperationKey) -> Option<&AssetOperation> {
        self.operations.get(&(tenant, key.clone()))
    }

    /// Adds a tombstone if the order has no hold: the lock was refused, or the release came before the lock. A later
    /// lock is then skipped.
    pub(crate) fn insert_tombstone(&mut self, subject: Subject) {
        let tombstone = Hold::tombstone(subject.hold_key(), subject.user, subject.asset, self.now);
        self.holds.entry(subject.hold_key()).or_insert(TrackedRow {
            read_version: None,
            row: tombstone,
            changed: true,
        });
    }

    /// Writes all changed rows and new operations.
    pub(crate) async fn write(self, unit: &mut Work) -> Result<(), StoreError> {
        let holds: Vec<Hold> = self
            .holds
            .values()
            .filter(|tracked| tracked.changed)
            .map(|tracked| Hold { version: tracked.version(), ..tracked.row.clone() })
            .collect();
        if !holds.is_empty() {
            unit.put_holds(&holds).await?;
        }
        let balances: Vec<Balance> = self
            .balances
            .values()
            .filter(|tracked| tracked.changed)
            .map(|tracked| Balance { version: tracked.version(), ..tracked.row.clone() })
            .collect();
        if !balances.is_empty() {
            unit.put_balances(&balances).await?;
        }
        for tracked in self.coupons.values().filter(|tracked| tracked.changed) {
            let coupon = Coupon { version: tracked.version(), ..tracked.row.clone() };
            if unit.advance_coupon(&coupon).await? == Changed::None {
                return Err(StoreError::Conflict { what: format!("coupon {}", coupon.id) });
            }
        }
        if !self.postings.is_empty() {
            unit.post(&self.postings).await?;
        }
        Ok(())
    }

    pub(super) fn change_balance(
        &mut self,
        subject: Subject,
        step: impl FnOnce(&Balance, DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal>,
    ) -> Result<Vec<Entry>, AssetRefusal> {
        let asset = self.asset;
        let tracked = self
            .balances
            .get_mut(&(subject.tenant, subject.user))
            .ok_or(AssetRefusal::Insufficient { asset, asked: 0, available: 0 })?;
        let (after, entries) = step(&tracked.row, self.now)?;
        tracked.row = after;
        tracked.changed = true;
        Ok(entries)
    }

    pub(super) fn change_coupon(
        &mut self,
        subject: Subject,
        id: CouponId,
        step: impl FnOnce(&Coupon, DateTime<Utc>) -> Result<Coupon, AssetRefusal>,
    ) -> Result<Vec<Entry>, AssetRefusal> {
        let asset = self.asset;
        let tracked = self.coupons.get_mut(&(subject.tenant, id)).ok_or(AssetRefusal::NotLocked { asset })?;
        tracked.row = step(&tracked.row, self.now)?;
        tracked.changed = true;
        Ok(Vec::new())
    }

    /// Available amount of the user's balance, with the changes of this unit of work; `None` if it was not read.
    pub(super) fn available(&self, subject: Subject) -> Option<i64> {
        self.balances.get(&(subject.tenant, subject.user)).map(|tracked| tracked.row.available)
    }

    /// Replaces or adds the hold of an order.
    pub(super) fn put_hold(&mut self, subject: Subject, hold: Hold) {
        match self.holds.get_mut(&subject.hold_key()) {
            Some(tracked) => {
                tracked.row = hold;
                tracked.changed = true;
            }
            None => {
                self.holds
                    .insert(subject.hold_key(), TrackedRow { read_version: None, row: hold, changed: true });
            }
        }
    }

    pub(super) fn add_posting(&mut self, posting: Posting) {
        let operation = &posting.operation;
        self.operations.insert((operation.tenant, operation.key.clone()), operation.clone());
        self.postings.push(posting);
    }
}
