//! Promises about captured and refunded money.

use marketplace_domain::{
    Asset, AssetOperation, Capture, OperationKey, OperationKind, OrderStatus, PaymentStatus, Refund,
    RefundStatus,
};

use super::promise::{Evidence, Promise, Violations, promise};

/// Amounts of one capture: booked and paid out according to the ledger, refunded according to the refunds.
struct Flow<'a> {
    capture: &'a Capture,
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

    /// Whether the captured amount is in the ledger.
    fn is_captured(&self) -> bool {
        self.captured == self.capture.amount.minor()
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
        let (id, number, refunds) = (self.capture.payment, self.capture.number, self.refunds.len());
        format!(
            "payment {id}, capture {number}: {captured} captured, {refunded} refunded in {refunds} refunds, {paid_out} paid out"
        )
    }
}

fn flows<'a>(evidence: &Evidence<'a>) -> Vec<Flow<'a>> {
    let assets = &evidence.database.assets;
    let mut flows = Vec::new();
    for (order, captures) in &assets.captures {
        let refunds = assets.refunds.get(order).map(Vec::as_slice).unwrap_or_default();
        let operations = assets.of(*order);
        let sum = |is_counted: &dyn Fn(&AssetOperation) -> bool| -> i64 {
            operations
                .iter()
                .filter(|operation| is_counted(operation))
                .map(|operation| operation.amount)
                .sum()
        };
        for capture in captures {
            let all: Vec<&Refund> = refunds.iter().filter(|refund| capture.is_refunded_by(refund)).collect();
            let key = OperationKey::capture(capture.payment, capture.number);
            flows.push(Flow {
                capture,
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

/// Payments that succeeded without a capture of their amount, and booked captures that have no row.
fn unexplained_payments(evidence: &Evidence<'_>, violations: &mut Violations) {
    let database = evidence.database;
    for payment in database.payments.values().flatten() {
        let captures = payment.of.order().and_then(|order| database.assets.captures.get(&order));
        let captures = captures.map(Vec::as_slice).unwrap_or_default();
        let is_captured = captures.iter().any(|it| it.payment == payment.id && it.amount == payment.amount);
        if payment.status == PaymentStatus::Success && !is_captured {
            violations.add(|| format!("payment {} succeeded, but its amount was not captured", payment.id));
        }
    }
    for (order, operations) in &database.assets.operations {
        let captures = database.assets.captures.get(order).map(Vec::as_slice).unwrap_or_default();
        let is_known = |operation: &AssetOperation| {
            captures.iter().any(|it| OperationKey::capture(it.payment, it.number) == operation.key)
        };
        for operation in operations.iter().filter(|it| it.kind == OperationKind::Capture) {
            if !is_known(operation) {
                violations.add(|| format!("{} is in the ledger, but was not captured", operation.key));
            }
        }
    }
}

/// Promise: the money that paid each refunded order was refunded in full, once; no other money that paid an order was
/// refunded. Another promise covers money that pays no order.
pub(super) fn equal_captured(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut violations = Violations::default();
    let mut orders = 0;
    let mut captured = 0;
    let mut refunded = 0;
    unexplained_payments(evidence, &mut violations);
    for flow in flows(evidence).iter().filter(|flow| !flow.capture.refund_due) {
        let order = flow.capture.of.order().and_then(|order| database.orders.get(&order));
        let is_refunded = order.is_some_and(|order| order.status == OrderStatus::Refunded);
        let is_correct = if is_refunded {
            orders += 1;
            captured += flow.captured;
            refunded += flow.refunded();
            flow.is_refunded_once()
        } else {
            flow.is_not_refunded()
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

/// Promise: captured money that pays no order (late, captured twice, or a wrong amount) was refunded automatically, exactly
/// once.
pub(super) fn excess_captures(evidence: &Evidence<'_>) -> Promise {
    let mut violations = Violations::default();
    let (mut captures, mut refunded) = (0, 0);
    for flow in flows(evidence).iter().filter(|flow| flow.capture.refund_due) {
        captures += 1;
        if flow.is_captured() && flow.is_refunded_once() {
            refunded += 1;
        } else {
            violations.add(|| flow.describe());
        }
    }
    let text = |count: usize| format!("{count} of {captures}");
    promise("money that pays no order is refunded", text(captures), text(refunded), &violations)
}
