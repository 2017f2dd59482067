//! Assets of the small day's orders, changed with the domain's functions, as the consumers do.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use handover_outbox::ports::OutboxRow;
use marketplace::ports::AccountTotal;
use marketplace_domain::{
    Account, Asset, AssetOperation, Balance, Capture, Coupon, CouponStatus, Entry, EventBody, Hold, Money,
    OperationKey, OperationKind, Order, Payment, Purse, Refund, RefundCause, RefundReport, RefundResult,
    RequestedAssets, UserId,
};

use super::{REFUNDED, REFUSED, SmallDay, WITH_ASSETS};

/// Grants to each buyer whose order uses assets: wallet balance in minor units, and points.
const WALLET: i64 = 1_000;
const POINTS: i64 = 200;

impl SmallDay {
    /// If the order uses assets, grants its buyer a coupon, wallet balance and points. Returns the assets that the
    /// order uses.
    pub(super) fn grant_and_use_assets(&mut self, number: i64, buyer: UserId) -> RequestedAssets {
        let wallet = match number {
            REFUNDED | WITH_ASSETS => WALLET / 2,
            REFUSED => WALLET * 2,
            _ => return RequestedAssets::NONE,
        };
        for (purse, amount, from) in
            [(Purse::Wallet, WALLET, Account::Gateway), (Purse::Points, POINTS, Account::PointsIssued)]
        {
            self.change_balance(buyer, purse, |balance, now| balance.receive(amount, from, now).unwrap());
        }
        let coupon = Coupon {
            id: number.try_into().unwrap(),
            tenant: TenantId::DEFAULT,
            user: buyer,
            discount: Money::from_minor(500).unwrap(),
            min_spend: Money::ZERO,
            expires_at: self.now + TimeDelta::days(1),
            status: CouponStatus::Available,
            order: None,
            version: 1,
            create_time: self.now,
            update_time: self.now,
        };
        self.database.assets.coupons.push(coupon.clone());
        let points = if number == REFUSED { 0 } else { POINTS / 2 };
        RequestedAssets {
            coupon: Some(coupon),
            wallet: Money::from_minor(wallet).unwrap(),
            points: points.try_into().unwrap(),
        }
    }

    /// Applies an event of an order to holds, balances and coupons.
    pub(super) fn apply_to_assets(&mut self, row: &OutboxRow, event: &EventBody, order: &Order) {
        let cause = (row, order);
        for asset in order.assets.named() {
            match event {
                EventBody::OrderCreated(_) => self.lock(cause, asset),
                EventBody::OrderPaid(_) => self.end(cause, asset, OperationKind::Commit),
                EventBody::OrderCancelled(_) => self.end(cause, asset, OperationKind::Release),
                EventBody::OrderRefunded(_) => self.end(cause, asset, OperationKind::Revert),
                _ => {}
            }
        }
        let earned = order.payable.minor() / 100;
        match event {
            EventBody::OrderPaid(_) => {
                self.change_balance(order.buyer, Purse::Points, |balance, now| {
                    balance.receive(earned, Account::PointsIssued, now).unwrap()
                });
                self.operate(cause, Asset::Points, OperationKind::Earn, earned);
            }
            EventBody::OrderRefunded(_) => {
                self.change_balance(order.buyer, Purse::Points, |balance, now| {
                    balance.revoke(earned, now).unwrap()
                });
                self.operate(cause, Asset::Points, OperationKind::Unearn, earned);
            }
            _ => {}
        }
    }

    fn lock(&mut self, cause: (&OutboxRow, &Order), asset: Asset) {
        let order = cause.1;
        let (of, amount) = ((order.tenant, order.id), order.assets.amount(asset));
        let balance = self.balance(order.buyer, asset);
        let hold = if balance.is_some_and(|balance| balance.available < amount) {
            Hold::tombstone(of, order.buyer, asset, self.now)
        } else {
            let coupon = order.assets.coupon.filter(|_| asset == Asset::Coupon).map(|used| used.id);
            self.change(order, asset, amount, OperationKind::Freeze);
            self.operate(cause, asset, OperationKind::Freeze, amount);
            Hold::frozen(of, order.buyer, asset, amount, coupon, self.now)
        };
        self.database.assets.holds.entry(order.id).or_default().push(hold);
    }

    fn end(&mut self, cause: (&OutboxRow, &Order), asset: Asset, kind: OperationKind) {
        let (order, now) = (cause.1, self.now);
        let holds = self.database.assets.holds.get_mut(&order.id).unwrap();
        let hold = holds.iter_mut().find(|hold| hold.asset == asset).unwrap();
        let after = match kind {
            OperationKind::Commit => hold.commit(now),
            OperationKind::Release => hold.release(now),
            _ => hold.revert(now),
        };
        // `None`: the lock was rejected.
        let Some(after) = after.unwrap() else { return };
        let amount = after.amount;
        *hold = after;
        self.change(order, asset, amount, kind);
        self.operate(cause, asset, kind, amount);
    }

    fn change(&mut self, order: &Order, asset: Asset, amount: i64, kind: OperationKind) {
        let purse = match asset {
            Asset::Wallet => Purse::Wallet,
            Asset::Points => Purse::Points,
            Asset::Coupon | Asset::Cash => return self.change_coupon(order, kind),
        };
        self.change_balance(order.buyer, purse, |balance, now| {
            let changed = match kind {
                OperationKind::Freeze => balance.freeze(amount, now),
                OperationKind::Commit => balance.commit(amount, now),
                OperationKind::Release => balance.release(amount, now),
                _ => balance.revert(amount, now),
            };
            changed.unwrap()
        });
    }

    fn change_coupon(&mut self, order: &Order, kind: OperationKind) {
        let now = self.now;
        let coupon =
            self.database.assets.coupons.iter_mut().find(|coupon| coupon.user == order.buyer).unwrap();
        let after = match kind {
            OperationKind::Freeze => coupon.lock(order.buyer, order.id, now),
            OperationKind::Commit => coupon.commit(order.id, now),
            OperationKind::Release => coupon.release(order.id, now),
            _ => coupon.return_used(order.id, now),
        };
        *coupon = after.unwrap();
    }

    fn balance(&self, user: UserId, asset: Asset) -> Option<&Balance> {
        let balances = self.database.assets.balances.iter();
        balances.filter(|balance| balance.purse.asset() == asset).find(|balance| balance.user == user)
    }

    /// Changes the balance of a user and posts the entries to the ledger.
    pub(in super::super) fn change_balance(
        &mut self,
        user: UserId,
        purse: Purse,
        step: impl FnOnce(&Balance, DateTime<Utc>) -> (Balance, Vec<Entry>),
    ) {
        let before = self.balance(user, purse.asset()).cloned();
        let before = before.unwrap_or(Balance::empty(TenantId::DEFAULT, user, purse, self.now));
        let (after, entries) = step(&before, self.now);
        let balances = &mut self.database.assets.balances;
        balances.retain(|balance| (balance.user, balance.purse) != (user, purse));
        balances.push(after);
        self.post(&entries);
    }

    /// Posts entries to the ledger.
    pub(in super::super) fn post(&mut self, entries: &[Entry]) {
        let assets = &mut self.database.assets;
        for entry in entries {
            if let Some(user) = entry.user {
                *assets.entries.entry((user, entry.account)).or_insert(0) += entry.amount;
            }
            let (tenant, account) = (TenantId::DEFAULT, entry.account);
            match assets.totals.iter_mut().find(|total| total.account == account) {
                Some(total) => total.total += entry.amount,
                None => assets.totals.push(AccountTotal { tenant, account, total: entry.amount }),
            }
        }
    }

    fn operate(
        &mut self,
        (row, order): (&OutboxRow, &Order),
        asset: Asset,
        kind: OperationKind,
        amount: i64,
    ) {
        let key = OperationKey::stored(format!("{asset} {} {}", kind.as_str(), order.id));
        self.record(AssetOperation {
            asset,
            kind,
            coupon: order.assets.coupon.filter(|_| asset == Asset::Coupon).map(|used| used.id),
            event_id: Some(row.event_id.clone()),
            ..capture(order, key, amount)
        });
    }

    fn record(&mut self, operation: AssetOperation) {
        self.database.assets.operations.entry(operation.order.unwrap()).or_default().push(operation);
    }

    /// Books a captured amount.
    pub(super) fn capture(&mut self, order: &Order, captured: Capture) {
        let amount = captured.amount.minor();
        self.record(capture(order, OperationKey::capture(captured.payment, captured.number), amount));
        self.post(&[Entry::own(Account::Gateway, -amount), Entry::own(captured.account(), amount)]);
        self.database.assets.captures.entry(order.id).or_default().push(captured);
    }

    /// Adds a refund of a payment with its result; a successful refund is also paid out.
    pub(super) fn refund(&mut self, order: &Order, payment: &Payment, id: i64, result: RefundResult) {
        let id = id.try_into().unwrap();
        let reason = "not as described".to_owned();
        let capture_of_payment = self.database.assets.captures[&order.id]
            .iter()
            .find(|capture| capture.payment == payment.id)
            .unwrap()
            .clone();
        let reference = "0192f0c1-0000-7000-8000-000000000001".parse().unwrap();
        let refund =
            Refund::of(payment, &capture_of_payment, (id, reference), RefundCause::Buyer, reason, self.now);
        let report = RefundReport { attempt: 1, result, transaction_id: None };
        let decision = refund.decide(&report, &order.clone().into(), &capture_of_payment, &[], self.now);
        let (settled, event) = decision.settled.unwrap();
        self.publish(event, settled.version);
        if result == RefundResult::Success {
            let amount = settled.amount.minor();
            self.record(AssetOperation {
                kind: OperationKind::Payout,
                refund: Some(id),
                ..capture(order, OperationKey::payout(id, 1), amount)
            });
            let from = capture_of_payment.account();
            self.post(&[Entry::own(from, -amount), Entry::own(Account::Gateway, amount)]);
        }
        self.database.assets.refunds.entry(order.id).or_default().push(settled);
    }
}

fn capture(order: &Order, key: OperationKey, amount: i64) -> AssetOperation {
    AssetOperation {
        tenant: TenantId::DEFAULT,
        key,
        asset: Asset::Cash,
        kind: OperationKind::Capture,
        user: Some(order.buyer),
        order: Some(order.id),
        refund: None,
        coupon: None,
        amount,
        balance_after: None,
        event_id: None,
        trace_id: None,
        at: order.create_time,
    }
}
