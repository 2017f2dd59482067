//! Promises about captured and refunded money.

use marketplace_domain::{
    Asset, AssetOperation, OperationKey, OperationKind, OrderStatus, Payment, PaymentStatus, Refund,
    RefundStatus,
};

use super::{Evidence, Promise, Violations, promise};

/// Amounts of one payment: captured and paid out according to the ledger, refunded according to the refunds.
struct Flow<'a> {
    payment: &'a Payment,
    /// Amount captured according to the ledger.
    captured: i64,
    /// Successful refunds.
    refunds: Vec<&'a Refund>,
    /// Amount paid out for refunds according to the ledger.
    paid_out: i64,
}

impl Flow<'_> {
    fn refunded(&self) -> i64 {
        self.refunds.iter().map(|refund| refund.amount.minor()).sum()
    }

    /// Whether the captured amount is that of the payment, or zero if the payment did not succeed.
    fn is_captured(&self) -> bool {
        let due = match self.payment.status {
            PaymentStatus::Success => self.payment.amount.minor(),
            PaymentStatus::Processing | PaymentStatus::Failed => 0,
        };
        self.captured == due
    }

    /// Whether the whole captured amount was refunded exactly once.
    fn is_refunded_once(&self) -> bool {
        self.refunds.len() == 1 && self.refunded() == self.captured && self.paid_out == self.captured
    }

    fn is_not_refunded(&self) -> bool {
        self.refunds.is_empty() && self.paid_out == 0
    }

    fn describe(&self) -> String {
        let [captured, refunded, paid_out] =
            [self.captured, self.refunded(), self.paid_out].map(|sum| Asset::Cash.show(sum));
        let (id, status, refunds) = (self.payment.id, self.payment.status, self.refunds.len());
        format!(
            "payment {id}, {status}: {captured} captured, {refunded} refunded in {refunds} refunds, {paid_out} paid out"
        )
    }
}

fn flows<'a>(evidence: &Evidence<'a>) -> Vec<Flow<'a>> {
    let database = evidence.database;
    let mut flows = Vec::new();
    for (order, payments) in &database.payments {
        let refunds = database.assets.refunds.get(order).map(Vec::as_slice).unwrap_or_default();
        let operations = database.assets.of(*order);
        let sum = |is_counted: &dyn Fn(&AssetOperation) -> bool| -> i64 {
            operations
                .iter()
                .filter(|operation| is_counted(operation))
                .map(|operation| operation.amount)
                .sum()
        };
        for payment in payments {
            let of_payment = |refund: &&Refund| refund.payment == payment.id;
            let all: Vec<&Refund> = refunds.iter().filter(of_payment).collect();
            let key = OperationKey::capture(payment.id);
            flows.push(Flow {
                payment,
                captured: sum(&|operation| operation.kind == OperationKind::Capture && operation.key == key),
                paid_out: sum(&|operation| {
                    operation.kind == OperationKind::Payout
                        && all.iter().any(|refund| operation.refund == Some(refund.id))
                }),
                refunds: all
                    .iter()
                    .copied()
                    .filter(|refund| refund.status == RefundStatus::Success)
                    .collect(),
            });
        }
    }
    flows
}

/// Promise: the captured payment of each refunded order was refunded in full, once; no other payment was refunded. Late
/// payments are excluded: another promise covers them.
pub(super) fn equal_captured(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut violations = Violations::default();
    let mut orders = 0;
    let mut captured = 0;
    let mut refunded = 0;
    let flows = flows(evidence);
    for flow in flows.iter().filter(|flow| !flow.payment.refund_due) {
        let order = database.orders.get(&flow.payment.order);
        let is_refunded = order.is_some_and(|order| order.status == OrderStatus::Refunded);
        let is_correct = match (is_refunded, flow.payment.status) {
            (true, PaymentStatus::Success) => {
                orders += 1;
                captured += flow.captured;
                refunded += flow.refunded();
                flow.is_refunded_once()
            }
            (true | false, PaymentStatus::Success | PaymentStatus::Processing | PaymentStatus::Failed) => {
                flow.is_not_refunded()
            }
        };
        if !is_correct || !flow.is_captured() {
            violations.add(|| flow.describe());
        }
    }
    let refunded_orders =
        database.orders.values().filter(|order| order.status == OrderStatus::Refunded).count();
    if refunded_orders != orders {
        violations.add(|| format!("{refunded_orders} refunded orders, but {orders} refunded payments"));
    }
    let open =
        database.assets.refunds.values().flatten().filter(|refund| refund.status == RefundStatus::Processing);
    open.for_each(|refund| violations.add(|| format!("refund {} is still in progress", refund.id)));
    let text = |orders: usize, sum: i64| {
        let noun = if orders == 1 { "order" } else { "orders" };
        format!("{} refunded, {orders} {noun}", Asset::Cash.show(sum))
    };
    promise(
        "refunds equal captured amounts",
        text(refunded_orders, captured),
        text(orders, refunded),
        &violations,
    )
}

/// Promise: each late payment was refunded automatically, exactly once.
pub(super) fn late_payments(evidence: &Evidence<'_>) -> Promise {
    let mut violations = Violations::default();
    let (mut payments, mut refunded) = (0, 0);
    for flow in flows(evidence).iter().filter(|flow| flow.payment.refund_due) {
        payments += 1;
        if flow.is_captured() && flow.is_refunded_once() {
            refunded += 1;
        } else {
            violations.add(|| flow.describe());
        }
    }
    let text = |count: usize| format!("{count} of {payments}");
    promise("a late payment is refunded once", text(payments), text(refunded), &violations)
}
