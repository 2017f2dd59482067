//! The books of one unit of work: what it needs of holds, balances and coupons is read and locked at once, changed in
//! memory by the domain's decisions, and written at once.
//!
//! **Invariant:** whatever has a key is done once: an operation that is there already is answered with, not repeated.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{
    Account, Asset, AssetOperation, AssetRefusal, Balance, Coupon, CouponId, Entry, Hold, HoldStatus,
    OperationKey, OperationKind, OrderId, Points, Posting, Purse, RefundId, UserId,
};

use crate::mutants::{Mutant, planted};
use crate::ports::Work;
use handover_outbox::ports::{Changed, StoreError};

/// What causes an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// The event, if it is one.
    pub(crate) event_id: Option<EventId>,
    /// The trace.
    pub(crate) trace_id: Option<String>,
}

/// Whose asset for which order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) tenant: TenantId,
    pub(crate) order: OrderId,
    pub(crate) user: UserId,
    pub(crate) asset: Asset,
}

impl Subject {
    fn hold(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }
}

/// What a step has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// The operation, just now.
    Now(AssetOperation),
    /// The operation had been done before: its first result.
    Before(AssetOperation),
    /// Nothing was to be done.
    Nothing(&'static str),
}

impl Done {
    /// The key of the operation, if there is one.
    pub(crate) fn key(&self) -> Option<&OperationKey> {
        match self {
            Done::Now(operation) | Done::Before(operation) => Some(&operation.key),
            Done::Nothing(_) => None,
        }
    }
}

/// What is needed of the store.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Holds of these orders.
    pub(crate) orders: BTreeSet<(TenantId, OrderId)>,
    /// Balances of these users, of wallet or points.
    pub(crate) users: BTreeSet<(TenantId, UserId)>,
    /// These operations, if they were done before.
    pub(crate) keys: BTreeSet<(TenantId, OperationKey)>,
    /// Coupons that no hold names yet.
    pub(crate) coupons: BTreeSet<(TenantId, CouponId)>,
}

/// A row as it was read and as it is to be written.
struct Kept<R> {
    read: Option<i64>,
    row: R,
    changed: bool,
}

impl<R> Kept<R> {
    /// One version on from what was read, however many steps it took.
    fn version(&self) -> i64 {
        self.read.map_or(1, |read| read + 1)
    }
}

/// The books of one asset, open in a unit of work.
pub(crate) struct Books {
    asset: Asset,
    now: DateTime<Utc>,
    done: BTreeMap<(TenantId, OperationKey), AssetOperation>,
    holds: BTreeMap<(TenantId, OrderId), Kept<Hold>>,
    balances: BTreeMap<(TenantId, UserId), Kept<Balance>>,
    coupons: BTreeMap<(TenantId, CouponId), Kept<Coupon>>,
    postings: Vec<Posting>,
}

/// The purse of an asset that is kept in balances.
const fn purse(asset: Asset) -> Option<Purse> {
    match asset {
        Asset::Wallet => Some(Purse::Wallet),
        Asset::Points => Some(Purse::Points),
        Asset::Coupon | Asset::Cash => None,
    }
}

impl Books {
    /// Reads and locks what is wanted.
    pub(crate) async fn open(
        unit: &mut Work,
        asset: Asset,
        wanted: Wanted,
        now: DateTime<Utc>,
    ) -> Result<Books, StoreError> {
        let mut books = Books {
            asset,
            now,
            done: BTreeMap::new(),
            holds: BTreeMap::new(),
            balances: BTreeMap::new(),
            coupons: BTreeMap::new(),
            postings: Vec::new(),
        };
        let mut coupons = wanted.coupons;
        if !wanted.orders.is_empty() {
            let orders: Vec<_> = wanted.orders.into_iter().collect();
            for hold in unit.lock_holds(asset, &orders).await? {
                coupons.extend(hold.coupon.map(|coupon| (hold.tenant, coupon)));
                let kept = Kept { read: Some(hold.version), row: hold, changed: false };
                books.holds.insert((kept.row.tenant, kept.row.order), kept);
            }
        }
        if let (Some(purse), false) = (purse(asset), wanted.users.is_empty()) {
            let users: Vec<_> = wanted.users.into_iter().collect();
            for balance in unit.lock_balances(purse, &users, now).await? {
                let kept = Kept { read: Some(balance.version), row: balance, changed: false };
                books.balances.insert((kept.row.tenant, kept.row.user), kept);
            }
        }
        for (tenant, id) in coupons {
            if let Some(coupon) = unit.coupon_by_id(tenant, id).await? {
                let kept = Kept { read: Some(coupon.version), row: coupon, changed: false };
                books.coupons.insert((tenant, id), kept);
            }
        }
        // Read after the locks: whoever did it before has committed by now.
        let mut keys: BTreeMap<TenantId, Vec<OperationKey>> = BTreeMap::new();
        for (tenant, key) in wanted.keys {
            keys.entry(tenant).or_default().push(key);
        }
        for (tenant, keys) in keys {
            for operation in unit.operations_by_key(tenant, &keys).await? {
                books.done.insert((tenant, operation.key.clone()), operation);
            }
        }
        Ok(books)
    }

    /// The hold of an order, as it stands now.
    pub(crate) fn hold(&self, order: (TenantId, OrderId)) -> Option<&Hold> {
        self.holds.get(&order).map(|kept| &kept.row)
    }

    /// What was done under a key before, or is done by these books.
    pub(crate) fn done(&self, tenant: TenantId, key: &OperationKey) -> Option<&AssetOperation> {
        self.done.get(&(tenant, key.clone()))
    }

    /// Holds so much for an order. After a release that came first nothing is held.
    pub(crate) fn freeze(
        &mut self,
        subject: Subject,
        (amount, coupon): (i64, Option<CouponId>),
        cause: &Cause,
    ) -> Result<Done, AssetRefusal> {
        let key = OperationKey::freeze(subject.asset, subject.order);
        if let Some(before) = self.before(subject, &key) {
            return Ok(before);
        }
        match self.hold(subject.hold()).cloned() {
            Some(hold) if hold.status == HoldStatus::Released => {
                Ok(Done::Nothing("released before it was locked"))
            }
            Some(hold) => {
                Ok(self.written_down_again(subject, &hold, (OperationKind::Freeze, key, None), cause))
            }
            None => {
                let entries = match coupon {
                    Some(id) => self.move_coupon(subject, id, |coupon, now| {
                        coupon.lock(subject.user, subject.order, now)
                    })?,
                    None => self.move_balance(subject, |balance, now| {
                        let (after, entries) = balance.freeze(amount, now)?;
                        let is_free = planted(Mutant::FreezeTakesNothing);
                        let available = if is_free { balance.available } else { after.available };
                        Ok((Balance { available, ..after }, entries))
                    })?,
                };
                let hold =
                    Hold::frozen(subject.hold(), subject.user, subject.asset, amount, coupon, self.now);
                Ok(self.moved(subject, hold, (OperationKind::Freeze, key, None), entries, cause))
            }
        }
    }

    /// The order was paid with what is held.
    pub(crate) fn commit(&mut self, subject: Subject, cause: &Cause) -> Result<Done, AssetRefusal> {
        let key = OperationKey::commit(subject.asset, subject.order);
        if let Some(before) = self.before(subject, &key) {
            return Ok(before);
        }
        let Some(hold) = self.hold(subject.hold()).cloned() else {
            return Err(AssetRefusal::NotLocked { asset: subject.asset });
        };
        let Some(after) = hold.commit(self.now)? else {
            return Ok(self.written_down_again(subject, &hold, (OperationKind::Commit, key, None), cause));
        };
        let entries = match hold.coupon {
            Some(id) => self.move_coupon(subject, id, |coupon, now| coupon.commit(subject.order, now))?,
            None => self.move_balance(subject, |balance, now| balance.commit(hold.amount, now))?,
        };
        Ok(self.moved(subject, after, (OperationKind::Commit, key, None), entries, cause))
    }

    /// The order is over unpaid. A release that comes before its lock leaves a tombstone.
    pub(crate) fn release(&mut self, subject: Subject, cause: &Cause) -> Result<Done, AssetRefusal> {
        let key = OperationKey::release(subject.asset, subject.order);
        if let Some(before) = self.before(subject, &key) {
            return Ok(before);
        }
        let Some(hold) = self.hold(subject.hold()).cloned() else {
            if !planted(Mutant::ReleaseLeavesNoTombstone) {
                self.bury(subject);
            }
            return Ok(Done::Nothing("nothing was locked yet, and nothing will be"));
        };
        let Some(after) = hold.release(self.now)? else {
            if hold.amount == 0 && hold.coupon.is_none() {
                return Ok(Done::Nothing("nothing was locked"));
            }
            return Ok(self.written_down_again(subject, &hold, (OperationKind::Release, key, None), cause));
        };
        let entries = match hold.coupon {
            Some(id) => self.move_coupon(subject, id, |coupon, now| coupon.release(subject.order, now))?,
            None => self.move_balance(subject, |balance, now| balance.release(hold.amount, now))?,
        };
        Ok(self.moved(subject, after, (OperationKind::Release, key, None), entries, cause))
    }

    /// What was committed is given back by a refund.
    pub(crate) fn revert(
        &mut self,
        subject: Subject,
        refund: RefundId,
        cause: &Cause,
    ) -> Result<Done, AssetRefusal> {
        let key = match subject.asset {
            Asset::Coupon => OperationKey::give_back(subject.order),
            Asset::Wallet | Asset::Points | Asset::Cash => OperationKey::revert(subject.asset, refund),
        };
        if let Some(before) = self.before(subject, &key) {
            return Ok(before);
        }
        let Some(hold) = self.hold(subject.hold()).cloned() else {
            return Err(AssetRefusal::BeyondCommitted { asset: subject.asset });
        };
        let Some(after) = hold.revert(self.now)? else {
            return Ok(self.written_down_again(
                subject,
                &hold,
                (OperationKind::Revert, key, Some(refund)),
                cause,
            ));
        };
        let entries = match hold.coupon {
            Some(id) => self.move_coupon(subject, id, |coupon, now| coupon.give_back(subject.order, now))?,
            None => self.move_balance(subject, |balance, now| balance.revert(hold.amount, now))?,
        };
        Ok(self.moved(subject, after, (OperationKind::Revert, key, Some(refund)), entries, cause))
    }

    /// Points for what was paid in money.
    pub(crate) fn earn(
        &mut self,
        subject: Subject,
        points: Points,
        cause: &Cause,
    ) -> Result<Done, AssetRefusal> {
        let mut key = OperationKey::earn(subject.order);
        if let (Some(event), true) = (&cause.event_id, planted(Mutant::EarnUnderAnotherKey)) {
            key = OperationKey::stored(format!("points:{event}:earn"));
        }
        if let Some(before) = self.before(subject, &key) {
            return Ok(before);
        }
        let amount = points.get();
        let entries =
            self.move_balance(subject, |balance, now| balance.receive(amount, Account::PointsIssued, now))?;
        Ok(self.posted(subject, (OperationKind::Earn, key, None), (amount, None), entries, cause))
    }

    /// What an order earned is taken back by its refund. Where nothing was earned yet, nothing will be: the operation
    /// over 0 says so.
    pub(crate) fn unearn(
        &mut self,
        subject: Subject,
        refund: RefundId,
        cause: &Cause,
    ) -> Result<Done, AssetRefusal> {
        let key = OperationKey::unearn(refund);
        if let Some(before) = self.before(subject, &key) {
            return Ok(before);
        }
        let earned = self.done(subject.tenant, &OperationKey::earn(subject.order));
        let amount = earned.map_or(0, |operation| operation.amount);
        let entries = if amount == 0 {
            Vec::new()
        } else {
            self.move_balance(subject, |balance, now| balance.take_back(amount, now))?
        };
        let operation = (OperationKind::Unearn, key, Some(refund));
        Ok(self.posted(subject, operation, (amount, None), entries, cause))
    }

    /// A lock that was refused for good, or is released before it came, will never be.
    pub(crate) fn bury(&mut self, subject: Subject) {
        let tombstone = Hold::tombstone(subject.hold(), subject.user, subject.asset, self.now);
        self.holds.entry(subject.hold()).or_insert(Kept { read: None, row: tombstone, changed: true });
    }

    /// Writes what has changed.
    pub(crate) async fn write(self, unit: &mut Work) -> Result<(), StoreError> {
        let holds: Vec<Hold> = self
            .holds
            .values()
            .filter(|kept| kept.changed)
            .map(|kept| Hold { version: kept.version(), ..kept.row.clone() })
            .collect();
        if !holds.is_empty() {
            unit.put_holds(&holds).await?;
        }
        let balances: Vec<Balance> = self
            .balances
            .values()
            .filter(|kept| kept.changed)
            .map(|kept| Balance { version: kept.version(), ..kept.row.clone() })
            .collect();
        if !balances.is_empty() {
            unit.put_balances(&balances).await?;
        }
        for kept in self.coupons.values().filter(|kept| kept.changed) {
            let coupon = Coupon { version: kept.version(), ..kept.row.clone() };
            if unit.advance_coupon(&coupon).await? == Changed::None {
                return Err(StoreError::Conflict { what: format!("coupon {}", coupon.id) });
            }
        }
        if !self.postings.is_empty() {
            unit.post(&self.postings).await?;
        }
        Ok(())
    }

    fn before(&self, subject: Subject, key: &OperationKey) -> Option<Done> {
        self.done(subject.tenant, key).cloned().map(Done::Before)
    }

    fn move_balance(
        &mut self,
        subject: Subject,
        step: impl FnOnce(&Balance, DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal>,
    ) -> Result<Vec<Entry>, AssetRefusal> {
        let asset = self.asset;
        let kept = self
            .balances
            .get_mut(&(subject.tenant, subject.user))
            .ok_or(AssetRefusal::Insufficient { asset, asked: 0, available: 0 })?;
        let (after, entries) = step(&kept.row, self.now)?;
        kept.row = after;
        kept.changed = true;
        Ok(entries)
    }

    fn move_coupon(
        &mut self,
        subject: Subject,
        id: CouponId,
        step: impl FnOnce(&Coupon, DateTime<Utc>) -> Result<Coupon, AssetRefusal>,
    ) -> Result<Vec<Entry>, AssetRefusal> {
        let asset = self.asset;
        let kept = self.coupons.get_mut(&(subject.tenant, id)).ok_or(AssetRefusal::NotLocked { asset })?;
        kept.row = step(&kept.row, self.now)?;
        kept.changed = true;
        Ok(Vec::new())
    }

    fn moved(
        &mut self,
        subject: Subject,
        hold: Hold,
        operation: (OperationKind, OperationKey, Option<RefundId>),
        entries: Vec<Entry>,
        cause: &Cause,
    ) -> Done {
        let moved = (hold.amount, hold.coupon);
        match self.holds.get_mut(&subject.hold()) {
            Some(kept) => {
                kept.row = hold;
                kept.changed = true;
            }
            None => {
                self.holds.insert(subject.hold(), Kept { read: None, row: hold, changed: true });
            }
        }
        self.posted(subject, operation, moved, entries, cause)
    }

    /// An operation whose row is gone while what it did is still there: its row is written again, and nothing is moved.
    fn written_down_again(
        &mut self,
        subject: Subject,
        hold: &Hold,
        operation: (OperationKind, OperationKey, Option<RefundId>),
        cause: &Cause,
    ) -> Done {
        self.posted(subject, operation, (hold.amount, hold.coupon), Vec::new(), cause)
    }

    fn posted(
        &mut self,
        subject: Subject,
        (kind, key, refund): (OperationKind, OperationKey, Option<RefundId>),
        (amount, coupon): (i64, Option<CouponId>),
        entries: Vec<Entry>,
        cause: &Cause,
    ) -> Done {
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
            balance_after: balance.filter(|_| !entries.is_empty()).map(|kept| kept.row.available),
            event_id: cause.event_id.clone(),
            trace_id: cause.trace_id.clone(),
            at: self.now,
        };
        self.done.insert((operation.tenant, operation.key.clone()), operation.clone());
        self.postings.push(Posting { operation: operation.clone(), entries });
        Done::Now(operation)
    }
}
