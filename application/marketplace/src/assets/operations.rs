//! Operations on the asset accounts of one unit of work: freeze, commit, release and revert a hold; earn and take back
//! points.
//!
//! **Invariant:** an operation takes effect once. If an operation with the same key exists, it is returned unchanged.

use handover_events::EventId;
use marketplace_domain::{
    Account, Asset, AssetOperation, AssetRefusal, CouponId, Entry, Hold, HoldStatus, OperationKey,
    OperationKind, Points, Posting, RefundId,
};

use super::accounts::{AssetAccounts, Subject};

/// Cause of an operation, stored with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// The event, if an event caused it.
    pub(crate) event_id: Option<EventId>,
    pub(crate) trace_id: Option<String>,
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AssetOutcome {
    /// This call applied the operation.
    Applied(AssetOperation),
    /// The operation had been applied before this call; contains the existing operation.
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

impl AssetAccounts {
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

    fn already_applied(&self, subject: Subject, key: &OperationKey) -> Option<AssetOutcome> {
        self.operation(subject.tenant, key).cloned().map(AssetOutcome::AlreadyApplied)
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
        self.put_hold(subject, hold);
        self.post_operation(subject, operation, held, entries, cause)
    }

    /// Writes the lost row of an operation whose effect exists. Writes no ledger entries.
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
        let operation = AssetOperation {
            tenant: subject.tenant,
            key,
            asset: subject.asset,
            kind,
            user: Some(subject.user),
            order: Some(subject.order),
            refund,
            coupon,
            amount,
            balance_after: if entries.is_empty() { None } else { self.available(subject) },
            event_id: cause.event_id.clone(),
            trace_id: cause.trace_id.clone(),
            at: self.now,
        };
        self.add_posting(Posting { operation: operation.clone(), entries });
        AssetOutcome::Applied(operation)
    }
}
