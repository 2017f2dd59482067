//! Comparison of an order with its payments, captures and refunds: what was captured, what it paid for, and what was paid back.
//!
//! **Invariant:** captured money either pays its order or is refunded, and only a payment makes an order paid.
//! No amount is derived from anything but a row that the gateway's report has written.

use marketplace_domain::{
    Capture, Money, Order, OrderStatus, Payment, PaymentId, PaymentStatus, Refund, RefundId, RefundStatus,
};

use crate::cash;
use crate::ports::MarketView;
use handover_outbox::ports::StoreError;

/// Number of attempts to read an order that does not change while its payments and refunds are read.
const MAX_LOOKS: usize = 3;

/// A contradiction between an order, its payments and its refunds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoneyMismatch {
    /// The order was paid, but none of its payments succeeded with its amount.
    PaidWithoutPayment,
    /// The order was paid, but its payment failed and no other payment succeeded.
    PaymentFailed(PaymentId),
    /// The payment succeeded, but its order is still pending.
    PaymentNotApplied(PaymentId),
    /// The order cannot use the money of this capture of the payment, and no refund is in processing or successful.
    NotRefunded(PaymentId, u32),
    /// The refund of the order is settled or does not exist, but the order is paid and still waits for it, so that it can
    /// neither be shipped nor refunded; or a refund succeeded that the order does not name.
    RefundNotApplied(RefundId),
}

/// An order with its payments, captures and refunds.
#[derive(Clone, Copy)]
pub(crate) struct OrderMoney<'a> {
    pub(crate) order: &'a Order,
    pub(crate) payments: &'a [Payment],
    pub(crate) captures: &'a [Capture],
    pub(crate) refunds: &'a [Refund],
}

/// The money that the gateway captured when the payment succeeded; `None` if it did not succeed.
pub(crate) fn captured_amount(payment: &Payment) -> Option<Money> {
    (payment.status == PaymentStatus::Success).then_some(payment.amount)
}

/// Whether the gateway captured the amount of the order for this payment, and the money is not to be refunded as late.
fn covers(payment: &Payment, order: &Order) -> bool {
    captured_amount(payment) == Some(order.payable) && !payment.refund_due
}

/// Whether the order claims to have been paid. A cancelled order was paid only if it has a payment time.
fn claims_payment(order: &Order) -> bool {
    match order.status {
        OrderStatus::Pending | OrderStatus::Cancelled => order.was_paid(),
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded => true,
    }
}

/// Whether effects of the payment may be announced: a payment covers the order. The money of a cancelled order may be
/// marked for a refund since.
pub(crate) fn is_paid_for(order: &Order, payments: &[Payment]) -> bool {
    let is_cancelled = order.status == OrderStatus::Cancelled;
    payments.iter().any(|it| captured_amount(it) == Some(order.payable) && (is_cancelled || !it.refund_due))
}

impl OrderMoney<'_> {
    /// The contradictions, those of the order first.
    pub(crate) fn mismatches(&self) -> Vec<MoneyMismatch> {
        let OrderMoney { order, payments, captures, refunds } = *self;
        let mut found = Vec::new();
        if claims_payment(order) && !is_paid_for(order, payments) {
            let failed = payments.iter().rfind(|it| it.status == PaymentStatus::Failed);
            let is_failure = !payments.iter().any(|it| captured_amount(it).is_some());
            found.push(match failed.filter(|_| is_failure) {
                Some(payment) => MoneyMismatch::PaymentFailed(payment.id),
                None => MoneyMismatch::PaidWithoutPayment,
            });
        }
        for payment in payments.iter().filter(|it| captured_amount(it).is_some() && !it.refund_due) {
            if order.status == OrderStatus::Pending {
                found.push(MoneyMismatch::PaymentNotApplied(payment.id));
            }
        }
        for capture in captures {
            if !self.pays_order(capture) && self.is_unused(capture) && capture.live_refund(refunds).is_none()
            {
                found.push(MoneyMismatch::NotRefunded(capture.payment, capture.number));
            }
        }
        found.extend(self.refund_not_applied().map(MoneyMismatch::RefundNotApplied));
        found
    }

    /// Whether the order uses the money of this capture.
    fn pays_order(&self, capture: &Capture) -> bool {
        !capture.refund_due && self.paying().is_some_and(|payment| payment.id == capture.payment)
    }

    /// The refund that a paid order contradicts. A running refund is in processing.
    fn refund_not_applied(&self) -> Option<RefundId> {
        if self.order.status != OrderStatus::Paid {
            return None;
        }
        let is_running =
            |id: RefundId| self.refunds.iter().any(|it| it.id == id && it.status == RefundStatus::Processing);
        let paying = self.captures.iter().find(|capture| self.pays_order(capture));
        let has_succeeded = |refund: &&Refund| {
            refund.status == RefundStatus::Success && paying.is_some_and(|it| it.is_refunded_by(refund))
        };
        let succeeded = self.refunds.iter().find(has_succeeded);
        succeeded.map(|refund| refund.id).or_else(|| self.order.refund.filter(|id| !is_running(*id)))
    }

    /// The capture with this number of a payment.
    pub(crate) fn capture(&self, payment: PaymentId, number: u32) -> Option<&Capture> {
        self.captures.iter().find(|it| (it.payment, it.number) == (payment, number))
    }

    /// The payment whose money the order uses: the first that covers a paid order. A cancelled or refunded order uses no
    /// money.
    pub(crate) fn paying(&self) -> Option<&Payment> {
        let uses_money =
            matches!(self.order.status, OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed);
        self.payments.iter().find(|payment| uses_money && covers(payment, self.order))
    }

    /// Whether it is certain that captured money buys nothing. If no payment covers a paid order, it is
    /// not certain which money the order uses.
    fn is_unused(&self, capture: &Capture) -> bool {
        let is_surplus = match self.order.status {
            OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => self.paying().is_some(),
            OrderStatus::Pending => false,
        };
        capture.amount > Money::ZERO && (is_surplus || capture.refund_due)
    }

    /// Whether it is certain that captured money was never refunded: it has no refund, not even a failed one, and neither
    /// the order nor the ledger names a refund whose row is lost. A refund that failed is repeated only by an operator.
    pub(crate) fn was_never_refunded(&self, capture: &Capture, in_ledger: &[RefundId]) -> bool {
        let exists = |id: RefundId| self.refunds.iter().any(|refund| refund.id == id);
        !self.refunds.iter().any(|refund| capture.is_refunded_by(refund))
            && self.order.refund.is_none_or(exists)
            && in_ledger.iter().copied().all(exists)
    }
}

impl MoneyMismatch {
    /// Description for operators.
    pub(crate) fn describe(self, of: &OrderMoney<'_>) -> String {
        let status = of.order.status;
        let payable = of.order.payable;
        let payment = |id: PaymentId| of.payments.iter().find(|payment| payment.id == id);
        let amount = |id: PaymentId| payment(id).map_or(Money::ZERO, |payment| payment.amount);
        match self {
            MoneyMismatch::PaidWithoutPayment => format!(
                "the order is {status}, but no payment of {payable} succeeded; it gets no events and no effects of \
                 a paid order"
            ),
            MoneyMismatch::PaymentFailed(id) => format!(
                "the order is {status}, but its payment {id} FAILED; it gets no events and no effects of a paid order"
            ),
            MoneyMismatch::PaymentNotApplied(id) if amount(id) == payable => {
                format!("payment {id} of {payable} succeeded, but the order is {status}")
            }
            MoneyMismatch::PaymentNotApplied(id) => format!(
                "payment {id} of {} succeeded, but the order is {status} and {payable} are to be paid",
                amount(id)
            ),
            MoneyMismatch::NotRefunded(id, number) => {
                let capture = of.capture(id, number);
                let is_of_capture = |refund: &&Refund| capture.is_some_and(|it| it.is_refunded_by(refund));
                let failed = of.refunds.iter().rfind(is_of_capture);
                let captured = capture.map_or(Money::ZERO, |capture| capture.amount);
                let remark = match failed {
                    Some(refund) => format!("its refund {} FAILED; request it again", refund.id),
                    None => "it has no refund".to_owned(),
                };
                format!(
                    "payment {id} captured {captured}, but the order is {status} and does not use it: {remark}"
                )
            }
            MoneyMismatch::RefundNotApplied(id) => match of.refunds.iter().find(|refund| refund.id == id) {
                Some(refund) => format!("refund {id} is {}, but the order is {status}", refund.status),
                None => format!("the order waits for its refund {id}, which does not exist"),
            },
        }
    }

    /// The payment or refund that contradicts the order, in the form `payment:7` or `refund:3`.
    pub(crate) fn key(self) -> Option<String> {
        match self {
            MoneyMismatch::PaidWithoutPayment => None,
            MoneyMismatch::PaymentFailed(id)
            | MoneyMismatch::PaymentNotApplied(id)
            | MoneyMismatch::NotRefunded(id, 1) => Some(format!("payment:{id}")),
            MoneyMismatch::NotRefunded(id, number) => Some(format!("payment:{id}:{number}")),
            MoneyMismatch::RefundNotApplied(id) => Some(format!("refund:{id}")),
        }
    }
}

/// Reads an order again with its payments, captures and refunds, and returns its contradictions with their descriptions. A change
/// of a payment that belongs to the order also changes the order, so an order with the same version before and after
/// was read consistently. An order that changes during each attempt is in progress and has no contradiction.
pub(crate) async fn confirmed_mismatches(
    view: &mut dyn MarketView,
    order: &Order,
) -> Result<Vec<(MoneyMismatch, String)>, StoreError> {
    for _ in 0..MAX_LOOKS {
        let Some(before) = view.order_by_id(order.tenant, order.id).await? else { return Ok(Vec::new()) };
        let payments = view.payments_of(order.tenant, &[order.id]).await?;
        let stored = view.captures_of(order.tenant, &[order.id]).await?;
        let captures = cash::captures_of(&payments, stored);
        // A capture that buys nothing is committed together with its refund, so the refunds are read last.
        let refunds = view.refunds_of(order.tenant, &[order.id]).await?;
        let after = view.order_by_id(order.tenant, order.id).await?;
        if after.as_ref() == Some(&before) {
            let money =
                OrderMoney { order: &before, payments: &payments, captures: &captures, refunds: &refunds };
            return Ok(money.mismatches().into_iter().map(|it| (it, it.describe(&money))).collect());
        }
    }
    Ok(Vec::new())
}
