//! Promises about money that came and went back.

use marketplace_domain::{
    Asset, AssetOperation, OperationKey, OperationKind, OrderStatus, Payment, PaymentStatus, Refund,
    RefundStatus,
};

use super::{Against, Evidence, Promise, promise};

/// What one payment brought and what went back of it, each counted where it is.
struct Flow<'a> {
    payment: &'a Payment,
    /// What the ledger took in.
    captured: i64,
    /// The refunds that succeeded.
    refunds: Vec<&'a Refund>,
    /// What the ledger paid out for them.
    paid_out: i64,
}

impl Flow<'_> {
    fn back(&self) -> i64 {
        self.refunds.iter().map(|refund| refund.amount.minor()).sum()
    }

    /// Whether all of it came in, or nothing where it failed.
    fn is_captured(&self) -> bool {
        let due = match self.payment.status {
            PaymentStatus::Success => self.payment.amount.minor(),
            PaymentStatus::Processing | PaymentStatus::Failed => 0,
        };
        self.captured == due
    }

    /// Whether all of it went back, once.
    fn is_paid_back(&self) -> bool {
        self.refunds.len() == 1 && self.back() == self.captured && self.paid_out == self.captured
    }

    /// Whether nothing of it went back.
    fn is_kept(&self) -> bool {
        self.refunds.is_empty() && self.paid_out == 0
    }

    fn said(&self) -> String {
        let [came, back, out] = [self.captured, self.back(), self.paid_out].map(|sum| Asset::Cash.show(sum));
        let (id, status, refunds) = (self.payment.id, self.payment.status, self.refunds.len());
        format!("payment {id}, {status}: {came} captured, {back} by {refunds} refunds, {out} paid out")
    }
}

fn flows<'a>(evidence: &Evidence<'a>) -> Vec<Flow<'a>> {
    let books = evidence.books;
    let mut flows = Vec::new();
    for (order, payments) in &books.payments {
        let refunds = books.assets.refunds.get(order).map(Vec::as_slice).unwrap_or_default();
        let operations = books.assets.of(*order);
        let sum = |is_meant: &dyn Fn(&AssetOperation) -> bool| -> i64 {
            operations.iter().filter(|operation| is_meant(operation)).map(|operation| operation.amount).sum()
        };
        for payment in payments {
            let of_payment = |refund: &&Refund| refund.payment == payment.id;
            let all: Vec<&Refund> = refunds.iter().filter(of_payment).collect();
            let key = OperationKey::capture(payment.id);
            flows.push(Flow {
                payment,
                captured: sum(&|it| it.kind == OperationKind::Capture && it.key == key),
                paid_out: sum(&|it| {
                    it.kind == OperationKind::Payout && all.iter().any(|refund| it.refund == Some(refund.id))
                }),
                refunds: all.iter().copied().filter(|it| it.status == RefundStatus::Success).collect(),
            });
        }
    }
    flows
}

/// Refunded orders got back what was captured for them; of no other order that needed its payment anything went back.
pub(super) fn refunded(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut against = Against::default();
    let (mut orders, mut captured, mut back) = (0, 0, 0);
    let flows = flows(evidence);
    for flow in flows.iter().filter(|flow| !flow.payment.refund_due) {
        let order = books.orders.get(&flow.payment.order);
        let is_refunded = order.is_some_and(|order| order.status == OrderStatus::Refunded);
        let is_right = match (is_refunded, flow.payment.status) {
            (true, PaymentStatus::Success) => {
                orders += 1;
                captured += flow.captured;
                back += flow.back();
                flow.is_paid_back()
            }
            (true | false, PaymentStatus::Success | PaymentStatus::Processing | PaymentStatus::Failed) => {
                flow.is_kept()
            }
        };
        if !is_right || !flow.is_captured() {
            against.add(|| flow.said());
        }
    }
    let refunded = books.orders.values().filter(|order| order.status == OrderStatus::Refunded).count();
    if refunded != orders {
        against.add(|| format!("{refunded} refunded orders with {orders} payments"));
    }
    let open = books.assets.refunds.values().flatten().filter(|it| it.status == RefundStatus::Processing);
    open.for_each(|refund| against.add(|| format!("refund {}, which nobody settled", refund.id)));
    let say = |orders: usize, sum: i64| format!("{} to {orders} orders", Asset::Cash.show(sum));
    promise("refunds are what was captured", say(refunded, captured), say(orders, back), &against)
}

/// A payment that its order did not need any more is paid back by itself, once.
pub(super) fn late(evidence: &Evidence<'_>) -> Promise {
    let mut against = Against::default();
    let (mut payments, mut paid_back) = (0, 0);
    for flow in flows(evidence).iter().filter(|flow| flow.payment.refund_due) {
        payments += 1;
        if flow.is_captured() && flow.is_paid_back() {
            paid_back += 1;
        } else {
            against.add(|| flow.said());
        }
    }
    let say = |count: usize| format!("{count} of {payments}");
    promise("a late payment is paid back once", say(payments), say(paid_back), &against)
}
