//! Breaks promises about assets and refunds.

use handover_application::ports::{OutboxRow, UnitOfWork};
use handover_domain::{
    Account, Asset, AssetOperation, Balance, Entry, EventType, Hold, HoldStatus, OperationKey, OperationKind,
    Order, OrderId, OrderStatus, Posting, Purse, RefundStatus,
};
use handover_sql::Statements;

use super::{Job, Spared, TENANT, events, orders};

/// Why money went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
    /// Its buyer wanted it back.
    ByBuyer,
    /// It came too late.
    Late,
}

/// An entry is more than it was. No port writes that: it is done by a statement of its own.
pub(super) async fn unbalance(unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
    let sql = "UPDATE ledger_entries SET amount = amount + 1
        WHERE id = (SELECT max(id) FROM ledger_entries WHERE account = 'gateway')";
    match Statements::of(unit)?.execute(sql, Vec::new()).await? {
        1 => Ok(()),
        _ => Err(Spared::Nothing),
    }
}

impl Job {
    /// A buyer has more than came.
    pub(super) async fn drift_balance(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let (order, _) = committed(unit, Asset::Wallet).await?;
        let locked = unit.lock_balances(Purse::Wallet, &[(TENANT, order.buyer)], self.now).await?;
        let balance = locked.into_iter().next().ok_or(Spared::Nothing)?;
        let (available, version) = (balance.available + 1, balance.version + 1);
        Ok(unit.put_balances(&[Balance { available, version, ..balance }]).await?)
    }

    /// What a paid order named ends otherwise, or not at all.
    pub(super) async fn end_hold(&self, unit: &mut dyn UnitOfWork, status: HoldStatus) -> Result<(), Spared> {
        let (_, hold) = committed(unit, Asset::Wallet).await?;
        Ok(unit.put_holds(&[Hold { status, version: hold.version + 1, ..hold }]).await?)
    }

    /// The coupon of a paid order is used by that order once more.
    pub(super) async fn reuse_coupon(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let (order, hold) = committed(unit, Asset::Coupon).await?;
        let again = AssetOperation {
            coupon: hold.coupon,
            ..self.operation(&order, Asset::Coupon, OperationKind::Commit, hold.amount)
        };
        Ok(unit.post(&[Posting { operation: again, entries: Vec::new() }]).await?)
    }

    /// In the balance, too: the books balance, and the points come from nothing.
    pub(super) async fn earn_twice(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let order = self.paid_order(unit).await?;
        let locked = unit.lock_balances(Purse::Points, &[(TENANT, order.buyer)], self.now).await?;
        let balance = locked.into_iter().next().ok_or(Spared::Nothing)?;
        let received = balance.receive(1, Account::PointsIssued, self.now);
        let (after, entries) = received.map_err(|_| Spared::Nothing)?;
        unit.put_balances(&[after]).await?;
        let operation = self.operation(&order, Asset::Points, OperationKind::Earn, 1);
        Ok(unit.post(&[Posting { operation, entries }]).await?)
    }

    /// The money of a refund goes back once more.
    pub(super) async fn pay_out_again(&self, unit: &mut dyn UnitOfWork, owed: Owed) -> Result<(), Spared> {
        for row in events(unit, EventType::RefundSucceeded, None).await? {
            let Some((order, is_late)) = refunded(unit, &row).await? else { continue };
            if is_late != (owed == Owed::Late) {
                continue;
            }
            let refunds = unit.refunds_of(TENANT, order.id).await?;
            let done = refunds
                .into_iter()
                .find(|refund| refund.status == RefundStatus::Success && refund.id.get() == row.aggregate.id);
            let Some(refund) = done.filter(|refund| refund.amount.minor() > 0) else { continue };
            let amount = refund.amount.minor();
            let operation = AssetOperation {
                refund: Some(refund.id),
                ..self.operation(&order, Asset::Cash, OperationKind::Payout, amount)
            };
            let entries = vec![Entry::own(Account::Platform, -amount), Entry::own(Account::Gateway, amount)];
            return Ok(unit.post(&[Posting { operation, entries }]).await?);
        }
        Err(Spared::Nothing)
    }

    /// An operation that nothing has caused.
    fn operation(&self, order: &Order, asset: Asset, kind: OperationKind, amount: i64) -> AssetOperation {
        AssetOperation {
            tenant: TENANT,
            key: OperationKey::stored("broken-on-purpose".to_owned()),
            asset,
            kind,
            user: order.buyer,
            order: Some(order.id),
            refund: None,
            coupon: None,
            amount,
            balance_after: None,
            event_id: None,
            trace_id: None,
            at: self.now,
        }
    }
}

/// An order that was paid with this asset, and what was held of it.
async fn committed(unit: &mut dyn UnitOfWork, asset: Asset) -> Result<(Order, Hold), Spared> {
    for order in orders(unit).await? {
        if order.status == OrderStatus::Refunded {
            continue;
        }
        let holds = unit.holds_of(TENANT, order.id).await?;
        if let Some(hold) = holds.into_iter().find(|hold| hold.asset == asset) {
            return Ok((order, hold));
        }
    }
    Err(Spared::Nothing)
}

/// The order of a refund that succeeded, and whether its payment came too late.
async fn refunded(unit: &mut dyn UnitOfWork, row: &OutboxRow) -> Result<Option<(Order, bool)>, Spared> {
    let payload: Option<serde_json::Value> = serde_json::from_str(&row.payload).ok();
    let id = payload.as_ref().and_then(|payload| payload.get("orderId")?.as_i64());
    let Some(id) = id.and_then(|id| OrderId::try_from(id).ok()) else { return Ok(None) };
    let order = unit.order_by_id(TENANT, id).await?;
    Ok(order.map(|order| {
        let is_late = order.status != OrderStatus::Refunded;
        (order, is_late)
    }))
}
