//! The events that the state of an order, its payments and its refunds says must have been announced.

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, Trace};
use marketplace_domain::{
    CancelReason, EventBody, EventType, Order, OrderCancelled, OrderCreated, OrderPaid, OrderRefunded,
    OrderStatus, OrderStatusChanged, OrderTimeout, Payment, PaymentFor, PaymentSettled, PaymentStatus,
    Refund, RefundSettled, RefundStatus,
};

use handover_outbox::ports::OutboxRow;
use handover_outbox::relay::envelope_of;

/// An event that must be in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Announced {
    /// What it says.
    pub(crate) body: EventBody,
    /// The version of the aggregate's row that it announces.
    pub(crate) aggregate_seq: i64,
    /// When it happened.
    pub(crate) at: DateTime<Utc>,
    /// The trace of the request that began the payment or the refund that caused it.
    pub(crate) trace: Option<Trace>,
}

impl Announced {
    /// Its type.
    pub(crate) fn event_type(&self) -> EventType {
        self.body.event_type()
    }

    /// What it is about.
    pub(crate) fn aggregate(&self, order: &Order) -> AggregateRef {
        AggregateRef {
            tenant: order.tenant,
            kind: self.event_type().aggregate().as_str().to_owned(),
            id: self.body.aggregate_id(),
        }
    }

    /// Whether this row announces it. Its place in the order is not asked for: a row inserted by hand has none (004 Q5).
    pub(crate) fn is_in(&self, row: &OutboxRow, order: &Order) -> bool {
        if row.aggregate != self.aggregate(order) {
            return false;
        }
        match (&self.body, confirmed_body(row, order)) {
            (EventBody::OrderStatusChanged(own), Some(EventBody::OrderStatusChanged(said))) => {
                own.new_status == said.new_status
            }
            (own, Some(said)) => own.event_type() == said.event_type(),
            (_, None) => false,
        }
    }
}

/// What a row says of an order; `None` if no consumer would apply it, because nobody can read it or the order contradicts it.
pub(crate) fn confirmed_body(row: &OutboxRow, order: &Order) -> Option<EventBody> {
    let body = EventBody::of(&envelope_of(row).ok()?).ok()?;
    let is_confirmed = body.aggregate_id() == row.aggregate.id && order.confirms(&body).is_ok();
    is_confirmed.then_some(body)
}

/// Everything that must have been announced of an order, its payments and its refunds, oldest first.
pub(crate) fn expected(order: &Order, payments: &[Payment], refunds: &[Refund]) -> Vec<Announced> {
    let mut events = of_order(order, payments, refunds);
    events.extend(payments.iter().filter_map(|payment| of_payment(order, payment)));
    events.extend(refunds.iter().filter_map(|refund| of_refund(order, refund)));
    events
}

/// The version at which an order was paid or cancelled: it was created with the one before.
const AFTER_PENDING: i64 = 2;

fn of_order(order: &Order, payments: &[Payment], refunds: &[Refund]) -> Vec<Announced> {
    let facts = order.facts();
    let (product, assets) = (order.product, &order.assets);
    let mut events = vec![
        Announced {
            body: EventBody::OrderCreated(OrderCreated {
                order: facts.clone(),
                product,
                quantity: 1,
                price: order.total,
                coupon_id: assets.coupon.map(|coupon| coupon.id),
                wallet_amount: (assets.wallet.minor() > 0).then_some(assets.wallet),
                points: (assets.points.get() > 0).then_some(assets.points),
            }),
            aggregate_seq: 1,
            at: order.create_time,
            trace: None,
        },
        Announced {
            body: EventBody::OrderTimeout(OrderTimeout {
                order: facts.clone(),
                create_time: order.create_time,
            }),
            aggregate_seq: 1,
            at: order.create_time,
            trace: None,
        },
    ];
    if let Some(pay_time) = order.pay_time {
        let body = OrderPaid { order: facts.clone(), pay_time, amount: order.payable, product };
        events.push(Announced {
            body: EventBody::OrderPaid(body),
            aggregate_seq: AFTER_PENDING,
            at: pay_time,
            trace: payments
                .iter()
                .find(|payment| has_paid(payment))
                .and_then(|payment| payment.trace.clone()),
        });
    }
    let changed = |old_status, new_status, aggregate_seq| Announced {
        body: EventBody::OrderStatusChanged(OrderStatusChanged {
            order: facts.clone(),
            old_status,
            new_status,
            changed_at: order.update_time,
        }),
        aggregate_seq,
        at: order.update_time,
        trace: None,
    };
    match order.status {
        OrderStatus::Pending | OrderStatus::Paid => {}
        OrderStatus::Shipped => events.push(changed(OrderStatus::Paid, OrderStatus::Shipped, order.version)),
        OrderStatus::Completed => {
            events.push(changed(OrderStatus::Paid, OrderStatus::Shipped, order.version - 1));
            events.push(changed(OrderStatus::Shipped, OrderStatus::Completed, order.version));
        }
        OrderStatus::Cancelled => {
            let body = OrderCancelled {
                order: facts.clone(),
                reason: order.cancel_reason.unwrap_or(CancelReason::Timeout),
                cancelled_at: order.update_time,
                product,
            };
            events.push(Announced {
                body: EventBody::OrderCancelled(body),
                aggregate_seq: order.version,
                at: order.update_time,
                trace: None,
            });
        }
        OrderStatus::Refunded => {
            // The refund that moved it: of a payment that it needed. Without one nothing can be said.
            let moved = |refund: &&Refund| refund.status == RefundStatus::Success && is_of_buyer(refund);
            if let Some(refund) = refunds.iter().rfind(moved) {
                let body = OrderRefunded {
                    order: facts.clone(),
                    refund: refund.id,
                    amount: refund.amount,
                    refunded_at: order.update_time,
                    product,
                };
                events.push(Announced {
                    body: EventBody::OrderRefunded(body),
                    aggregate_seq: order.version,
                    at: order.update_time,
                    trace: refund.trace.clone(),
                });
            }
        }
    }
    events
}

/// Whether the payment paid its order.
fn has_paid(payment: &Payment) -> bool {
    payment.status == PaymentStatus::Success && !payment.refund_due
}

fn is_of_buyer(refund: &Refund) -> bool {
    use marketplace_domain::RefundCause::{Buyer, LatePayment, Operator};
    match refund.cause {
        Buyer | Operator => true,
        LatePayment => false,
    }
}

fn of_payment(order: &Order, payment: &Payment) -> Option<Announced> {
    let settled = PaymentSettled {
        of: PaymentFor::Order(order.facts()),
        payment: payment.id,
        transaction_id: payment.transaction_id.clone().unwrap_or_default(),
        amount: payment.amount,
        currency: payment.currency,
        payment_method: payment.method.clone(),
        occurred_time: payment.update_time,
    };
    let body = match payment.status {
        PaymentStatus::Processing => return None,
        PaymentStatus::Success => EventBody::PaymentSucceeded(settled),
        PaymentStatus::Failed => EventBody::PaymentFailed(settled),
    };
    Some(Announced {
        body,
        aggregate_seq: payment.version,
        at: payment.update_time,
        trace: payment.trace.clone(),
    })
}

fn of_refund(order: &Order, refund: &Refund) -> Option<Announced> {
    let settled = RefundSettled {
        of: PaymentFor::Order(order.facts()),
        refund: refund.id,
        amount: refund.amount,
        currency: refund.currency,
        occurred_time: refund.update_time,
    };
    let body = match refund.status {
        RefundStatus::Processing => return None,
        RefundStatus::Success => EventBody::RefundSucceeded(settled),
        RefundStatus::Failed => EventBody::RefundFailed(settled),
    };
    Some(Announced {
        body,
        aggregate_seq: refund.version,
        at: refund.update_time,
        trace: refund.trace.clone(),
    })
}
