//! Asset accounts of one unit of work: holds, balances and coupons are read together, changed in memory by the rules of
//! the domain, and written together. Holds and balances are locked; a coupon is written only if its version has not
//! changed.
//!
//! **Invariant:** an operation takes effect once. If an operation with the same key exists, it is returned unchanged.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{
    Account, Asset, AssetOperation, AssetRefusal, Balance, Coupon, CouponId, Entry, Hold, HoldStatus,
    OperationKey, OperationKind, OrderId, Points, Posting, Purse, RefundId, UserId,
};

use crate::ports::Work;
use handover_outbox::ports::{Changed, StoreError};

/// Cause of an operation, stored with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// The event, if an event caused it.
    pub(crate) event_id: Option<EventId>,
    pub(crate) trace_id: Option<String>,
}

/// The asset of one user for one order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) tenant: TenantId,
    pub(crate) order: OrderId,
    pub(crate) user: UserId,
    pub(crate) asset: Asset,
}

impl Subject {
    fn hold_key(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AssetOutcome {
    /// Applied now.
    Applied(AssetOperation),
    /// Applied before; contains the existing operation.
    AlreadyApplied(AssetOperation),
    /// No operation was written, for this reason.
    Skipped(&'static str),
}

impl AssetOutcome {
    pub(crate) fn key(&self) -> Option<&OperationKey> {
        match self {
            AssetOutcome::Applied(operation) | AssetOutcome::AlreadyApplied(operation) => {
                Some(&operation.key)
            }
            AssetOutcome::Skipped(_) => None,
        }
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
    now: DateTime<Utc>,
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

    /// Creates the hold of an amount or a coupon for an order. If the release was applied before, no hold is created.
    pub(crate) fn freeze(
        &mut self,
        subject: Subject,
        (amount, coupon): (i64, Option<CouponId>),
        cause: &Cause,
    ) -> Result<AssetOutcome, AssetRefusal> {
        let key = OperationKey::freeze(subject.asset, subject.order);
        if let Some(already_applied) = self.already_applied(subject, &key) {
            return Ok(already_applied);
        }
        match self.hold(subject.hold_key()).cloned() {
            Some(hold) if hold.status == HoldStatus::Released => {
                Ok(AssetOutcome::Skipped("not locked: the release was applied before the lock"))
            }
            Some(hold) => {
                Ok(self.rewrite_operation(subject, &hold, (OperationKind::Freeze, key, None), cause))
            }
            None => {
                let entries = match coupon {
                    Some(id) => self.change_coupon(subject, id, |coupon, now| {
                        coupon.lock(subject.user, subject.order, now)
                    })?,
                    None => self.change_balance(subject, |balance, now| {
                        let (after, entries) = balance.freeze(amount, now)?;
                        Ok((after, entries))
                    })?,
                };
                let hold =
                    Hold::frozen(subject.hold_key(), subject.user, subject.asset, amount, coupon, self.now);
                Ok(self.post_with_hold(subject, hold, (OperationKind::Freeze, key, None), entries, cause))
            }
        }
    }

    /// Commits the hold: the order was paid.
    pub(crate) fn commit(&mut self, subject: Subject, cause: &Cause) -> Result<AssetOutcome, AssetRefusal> {
        let key = OperationKey::commit(subject.asset, subject.order);
        if let Some(already_applied) = self.already_applied(subject, &key) {
            return Ok(already_applied);
        }
        let Some(hold) = self.hold(subject.hold_key()).cloned() else {
            return Err(AssetRefusal::NotLocked { asset: subject.asset });
        };
        let Some(after) = hold.commit(self.now)? else {
            return Ok(self.rewrite_operation(subject, &hold, (OperationKind::Commit, key, None), cause));
        };
        let entries = match hold.coupon {
            Some(id) => self.change_coupon(subject, id, |coupon, now| coupon.commit(subject.order, now))?,
            None => self.change_balance(subject, |balance, now| balance.commit(hold.amount, now))?,
        };
        Ok(self.post_with_hold(subject, after, (OperationKind::Commit, key, None), entries, cause))
    }

    /// Releases the hold: the order ended unpaid. A release before its lock leaves a tombstone, which blocks the lock.
    pub(crate) fn release(&mut self, subject: Subject, cause: &Cause) -> Result<AssetOutcome, AssetRefusal> {
        let key = OperationKey::release(subject.asset, subject.order);
        if let Some(already_applied) = self.already_applied(subject, &key) {
            return Ok(already_applied);
        }
        let Some(hold) = self.hold(subject.hold_key()).cloned() else {
            self.insert_tombstone(subject);
            return Ok(AssetOutcome::Skipped("nothing was locked; a later lock is ignored"));
        };
        let Some(after) = hold.release(self.now)? else {
            if hold.amount == 0 && hold.coupon.is_none() {
                return Ok(AssetOutcome::Skipped("nothing was locked"));
            }
            return Ok(self.rewrite_operation(subject, &hold, (OperationKind::Release, key, None), cause));
        };
        let entries = match hold.coupon {
            Some(id) => self.change_coupon(subject, id, |coupon, now| coupon.release(subject.order, now))?,
            None => self.change_balance(subject, |balance, now| balance.release(hold.amount, now))?,
        };
        Ok(self.post_with_hold(subject, after, (OperationKind::Release, key, None), entries, cause))
    }

    /// Reverts a committed hold: the order was refunded, so the user gets the coupon or the amount back.
    pub(crate) fn revert(
        &mut self,
        subject: Subject,
        refund: RefundId,
        cause: &Cause,
    ) -> Result<AssetOutcome, AssetRefusal> {
        let key = match subject.asset {
            Asset::Coupon => OperationKey::return_used(subject.order),
            Asset::Wallet | Asset::Points | Asset::Cash => OperationKey::revert(subject.asset, refund),
        };
        if let Some(already_applied) = self.already_applied(subject, &key) {
            return Ok(already_applied);
        }
        let Some(hold) = self.hold(subject.hold_key()).cloned() else {
            return Err(AssetRefusal::BeyondCommitted { asset: subject.asset });
        };
        let Some(after) = hold.revert(self.now)? else {
            return Ok(self.rewrite_operation(
                subject,
                &hold,
                (OperationKind::Revert, key, Some(refund)),
                cause,
            ));
        };
        let entries = match hold.coupon {
            Some(id) => {
                self.change_coupon(subject, id, |coupon, now| coupon.return_used(subject.order, now))?
            }
            None => self.change_balance(subject, |balance, now| balance.revert(hold.amount, now))?,
        };
        Ok(self.post_with_hold(subject, after, (OperationKind::Revert, key, Some(refund)), entries, cause))
    }

    /// Credits points for the amount that was paid in money.
    pub(crate) fn earn(
        &mut self,
        subject: Subject,
        points: Points,
        cause: &Cause,
    ) -> Result<AssetOutcome, AssetRefusal> {
        let key = OperationKey::earn(subject.order);
        if let Some(already_applied) = self.already_applied(subject, &key) {
            return Ok(already_applied);
        }
        let amount = points.get();
        let entries =
            self.change_balance(subject, |balance, now| balance.receive(amount, Account::PointsIssued, now))?;
        Ok(self.post_operation(subject, (OperationKind::Earn, key, None), (amount, None), entries, cause))
    }

    /// Takes back the points that an order earned, because it was refunded. If it has earned nothing yet, an operation
    /// with amount 0 is written, which prevents earning later.
    pub(crate) fn unearn(
        &mut self,
        subject: Subject,
        refund: RefundId,
        cause: &Cause,
    ) -> Result<AssetOutcome, AssetRefusal> {
        let key = OperationKey::unearn(refund);
        if let Some(already_applied) = self.already_applied(subject, &key) {
            return Ok(already_applied);
        }
        let earned = self.operation(subject.tenant, &OperationKey::earn(subject.order));
        let amount = earned.map_or(0, |operation| operation.amount);
        let entries = if amount == 0 {
            Vec::new()
        } else {
            self.change_balance(subject, |balance, now| balance.revoke(amount, now))?
        };
        let operation = (OperationKind::Unearn, key, Some(refund));
        Ok(self.post_operation(subject, operation, (amount, None), entries, cause))
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

    fn already_applied(&self, subject: Subject, key: &OperationKey) -> Option<AssetOutcome> {
        self.operation(subject.tenant, key).cloned().map(AssetOutcome::AlreadyApplied)
    }

    fn change_balance(
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

    fn change_coupon(
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

    fn post_with_hold(
        &mut self,
        subject: Subject,
        hold: Hold,
        operation: (OperationKind, OperationKey, Option<RefundId>),
        entries: Vec<Entry>,
        cause: &Cause,
    ) -> AssetOutcome {
        let held = (hold.amount, hold.coupon);
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
        self.post_operation(subject, operation, held, entries, cause)
    }

    /// Writes the lost row of an operation whose effect exists, without ledger entries.
    fn rewrite_operation(
        &mut self,
        subject: Subject,
        hold: &Hold,
        operation: (OperationKind, OperationKey, Option<RefundId>),
        cause: &Cause,
    ) -> AssetOutcome {
        self.post_operation(subject, operation, (hold.amount, hold.coupon), Vec::new(), cause)
    }

    fn post_operation(
        &mut self,
        subject: Subject,
        (kind, key, refund): (OperationKind, OperationKey, Option<RefundId>),
        (amount, coupon): (i64, Option<CouponId>),
        entries: Vec<Entry>,
        cause: &Cause,
    ) -> AssetOutcome {
        let balance = self.balances.get(&(subject.tenant, subject.user));
        let operation = AssetOperation {
            tenant: subject.tenant,
            key,
            asset: subject.asset,
            kind,
            user: subject.user,
            order: Some(subject.order),
            refund,
            coupon,
            amount,
            balance_after: balance.filter(|_| !entries.is_empty()).map(|tracked| tracked.row.available),
            event_id: cause.event_id.clone(),
            trace_id: cause.trace_id.clone(),
            at: self.now,
        };
        self.operations.insert((operation.tenant, operation.key.clone()), operation.clone());
        self.postings.push(Posting { operation: operation.clone(), entries });
        AssetOutcome::Applied(operation)
    }
}
