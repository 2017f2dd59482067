//! The events that must exist, derived from the rows of an order or invoice, its payments and its refunds.

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, TenantId, Trace};
use marketplace_domain::{
    AggregateType, CancelReason, EventBody, EventKind, Invoice, Order, OrderCancelled, OrderCreated,
    OrderPaid, OrderRefunded, OrderStatus, OrderStatusChanged, OrderTimeout, Payment, PaymentFailed,
    PaymentFor, PaymentSettled, PaymentStatus, PaymentSucceeded, Refund, RefundFailed, RefundSettled,
    RefundStatus, RefundSucceeded,
};

use super::money::is_paid_for;
use handover_outbox::ports::{ArchivedEvent, OutboxRow};
use handover_outbox::relay::envelope_of;

/// An event that must be in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedEvent {
    pub(crate) body: EventBody,
    /// Version of the aggregate that the event announces.
    pub(crate) aggregate_seq: i64,
    /// Time of the change.
    pub(crate) at: DateTime<Utc>,
    /// Trace of the request that started the payment or refund that caused this event; `None` for other events.
    pub(crate) trace: Option<Trace>,
}

impl ExpectedEvent {
    pub(crate) fn event_type(&self) -> EventKind {
        self.body.event_type()
    }

    /// Description for operators of the event, which is missing.
    pub(crate) fn describe_missing(&self) -> String {
        let event_type = self.event_type();
        let (kind, id, version) = (event_type.aggregate(), self.body.aggregate_id(), self.aggregate_seq);
        format!("{kind} {id} has version {version}, but its event {event_type} is missing")
    }

    pub(crate) fn aggregate(&self, tenant: TenantId) -> AggregateRef {
        AggregateRef {
            tenant,
            kind: self.event_type().aggregate().to_owned(),
            id: self.body.aggregate_id().into(),
        }
    }

    /// Whether this archived event is the event. Of several changes of the status, `aggregate_seq` selects one; it is 0 in
    /// an event that was inserted by SQL, which may be any of them.
    fn is_archived_as(&self, archived: &ArchivedEvent, tenant: TenantId) -> bool {
        let is_this_change = self.event_type() != EventKind::OrderStatusChanged
            || [0, self.aggregate_seq].contains(&archived.aggregate_seq);
        archived.event_type == self.event_type().as_str()
            && archived.aggregate == self.aggregate(tenant)
            && is_this_change
    }

    /// Whether this row announces the event. `aggregate_seq` is not compared: a manually inserted row has none.
    fn is_announced_by(&self, row: &OutboxRow, of: AboutEvents<'_>) -> bool {
        if row.aggregate != self.aggregate(of.tenant()) {
            return false;
        }
        match (&self.body, of.confirmed_body(row)) {
            (EventBody::OrderStatusChanged(own), Some(EventBody::OrderStatusChanged(found))) => {
                own.new_status == found.new_status
            }
            (own, Some(found)) => own.event_type() == found.event_type(),
            (_, None) => false,
        }
    }
}

/// The order or invoice that events are about.
#[derive(Clone, Copy)]
pub(crate) enum AboutEvents<'a> {
    Order(&'a Order),
    Invoice(&'a Invoice),
}

impl AboutEvents<'_> {
    fn tenant(self) -> TenantId {
        match self {
            AboutEvents::Order(order) => order.tenant,
            AboutEvents::Invoice(invoice) => invoice.tenant,
        }
    }

    /// The payload of a row; `None` if the payload is malformed or contradicts the order or invoice: no consumer would apply
    /// it.
    pub(crate) fn confirmed_body(self, row: &OutboxRow) -> Option<EventBody> {
        let body = EventBody::of(&envelope_of(row).ok()?).ok()?;
        let is_confirmed = row.aggregate.id == body.aggregate_id()
            && match self {
                AboutEvents::Order(order) => order.confirms(&body).is_ok(),
                AboutEvents::Invoice(invoice) => invoice.confirms(&body),
            };
        is_confirmed.then_some(body)
    }

    fn payment_for(self) -> PaymentFor {
        match self {
            AboutEvents::Order(order) => PaymentFor::Order(order.facts()),
            AboutEvents::Invoice(invoice) => PaymentFor::Invoice { invoice: invoice.id },
        }
    }

    /// The aggregates with events: the order or invoice, its payments and its refunds.
    pub(crate) fn aggregates(self, payments: &[Payment], refunds: &[Refund]) -> Vec<AggregateRef> {
        let about = |kind: AggregateType, id: i64| AggregateRef {
            tenant: self.tenant(),
            kind: kind.as_str().to_owned(),
            id: id.into(),
        };
        let mut aggregates = vec![match self {
            AboutEvents::Order(order) => about(AggregateType::Order, order.id.get()),
            AboutEvents::Invoice(invoice) => about(AggregateType::Invoice, invoice.id.get()),
        }];
        aggregates.extend(payments.iter().map(|payment| about(AggregateType::Payment, payment.id.get())));
        aggregates.extend(refunds.iter().map(|refund| about(AggregateType::Refund, refund.id.get())));
        aggregates
    }

    /// Every event that the order or invoice, its payments and its refunds must have, in that sequence.
    pub(crate) fn expected(self, payments: &[Payment], refunds: &[Refund]) -> Vec<ExpectedEvent> {
        let mut events = match self {
            AboutEvents::Order(order) => of_order(order, payments, refunds),
            AboutEvents::Invoice(invoice) => vec![of_invoice(invoice)],
        };
        events.extend(payments.iter().filter_map(|payment| of_payment(self.payment_for(), payment)));
        events.extend(refunds.iter().filter_map(|refund| of_refund(self.payment_for(), refund)));
        events
    }

    /// The expected events that are neither among these rows of the outbox nor in the archive.
    pub(crate) fn missing(
        self,
        payments: &[Payment],
        refunds: &[Refund],
        rows: &[OutboxRow],
        archived: &[ArchivedEvent],
    ) -> Vec<ExpectedEvent> {
        let mut missing = self.expected(payments, refunds);
        missing.retain(|event| {
            !rows.iter().any(|row| event.is_announced_by(row, self))
                && !archived.iter().any(|archived| event.is_archived_as(archived, self.tenant()))
        });
        missing
    }
}

fn of_invoice(invoice: &Invoice) -> ExpectedEvent {
    ExpectedEvent {
        body: invoice.generated(),
        aggregate_seq: 1,
        at: invoice.create_time,
        trace: invoice.trace.clone(),
    }
}

/// Version of an order after its first transition. An order is created with version 1.
const AFTER_PENDING: i64 = 2;

fn of_order(order: &Order, payments: &[Payment], refunds: &[Refund]) -> Vec<ExpectedEvent> {
    let mut events = of_creation(order);
    // Only a payment makes an order paid: without one, no event of a paid order is announced.
    let is_paid = order.status != OrderStatus::Pending && is_paid_for(order, payments);
    if let Some(pay_time) = order.pay_time.filter(|_| is_paid) {
        let body =
            OrderPaid { order: order.facts(), pay_time, amount: order.payable, product: order.product };
        events.push(ExpectedEvent {
            body: EventBody::OrderPaid(body),
            aggregate_seq: AFTER_PENDING,
            at: pay_time,
            trace: payments
                .iter()
                .find(|payment| has_paid(payment))
                .and_then(|payment| payment.trace.clone()),
        });
    }
    match order.status {
        OrderStatus::Pending | OrderStatus::Paid => {}
        OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded if !is_paid => {}
        OrderStatus::Shipped => {
            events.push(of_change(order, OrderStatus::Paid, OrderStatus::Shipped, order.version));
        }
        OrderStatus::Completed => {
            events.push(of_change(order, OrderStatus::Paid, OrderStatus::Shipped, order.version - 1));
            events.push(of_change(order, OrderStatus::Shipped, OrderStatus::Completed, order.version));
        }
        OrderStatus::Cancelled => {
            let body = EventBody::OrderCancelled(OrderCancelled {
                order: order.facts(),
                reason: order.cancel_reason.unwrap_or(CancelReason::Timeout),
                cancelled_at: order.update_time,
                product: order.product,
            });
            events.push(of_update(order, body, order.version, None));
        }
        OrderStatus::Refunded => events.extend(of_order_refund(order, refunds)),
    }
    events
}

/// The events of a new order.
fn of_creation(order: &Order) -> Vec<ExpectedEvent> {
    let assets = &order.assets;
    let created = OrderCreated {
        order: order.facts(),
        product: order.product,
        quantity: 1,
        price: order.total,
        coupon_id: assets.coupon.map(|coupon| coupon.id),
        wallet_amount: (assets.wallet.minor() > 0).then_some(assets.wallet),
        points: (assets.points.get() > 0).then_some(assets.points),
    };
    let timeout = OrderTimeout { order: order.facts(), create_time: order.create_time };
    [EventBody::OrderCreated(created), EventBody::OrderTimeout(timeout)]
        .map(|body| ExpectedEvent { body, aggregate_seq: 1, at: order.create_time, trace: None })
        .into()
}

fn of_change(
    order: &Order,
    old_status: OrderStatus,
    new_status: OrderStatus,
    aggregate_seq: i64,
) -> ExpectedEvent {
    let changed_at = order.update_time;
    let body = OrderStatusChanged { order: order.facts(), old_status, new_status, changed_at };
    of_update(order, EventBody::OrderStatusChanged(body), aggregate_seq, None)
}

/// The event of the refund that changed the order, which may have failed since. Without that refund, no event can be derived.
fn of_order_refund(order: &Order, refunds: &[Refund]) -> Option<ExpectedEvent> {
    let has_refunded = |refund: &&Refund| order.refund == Some(refund.id) && refund.payouts > 0;
    let refund = refunds.iter().find(has_refunded)?;
    let body = OrderRefunded {
        order: order.facts(),
        refund: refund.id,
        amount: refund.amount,
        refunded_at: order.update_time,
        product: order.product,
    };
    Some(of_update(order, EventBody::OrderRefunded(body), order.version, refund.trace.clone()))
}

/// An event of the order's last change.
fn of_update(order: &Order, body: EventBody, aggregate_seq: i64, trace: Option<Trace>) -> ExpectedEvent {
    ExpectedEvent { body, aggregate_seq, at: order.update_time, trace }
}

/// Whether the payment paid its order.
fn has_paid(payment: &Payment) -> bool {
    payment.status == PaymentStatus::Success && !payment.refund_due
}

fn of_payment(of: PaymentFor, payment: &Payment) -> Option<ExpectedEvent> {
    let settled = PaymentSettled {
        of,
        payment: payment.id,
        transaction_id: payment.transaction_id.clone().unwrap_or_default(),
        amount: payment.amount,
        currency: payment.currency,
        payment_method: payment.method,
        occurred_time: payment.update_time,
    };
    let body = match payment.status {
        PaymentStatus::Processing => return None,
        PaymentStatus::Success => EventBody::PaymentSucceeded(PaymentSucceeded(settled)),
        PaymentStatus::Failed => EventBody::PaymentFailed(PaymentFailed(settled)),
    };
    Some(ExpectedEvent {
        body,
        aggregate_seq: payment.version,
        at: payment.update_time,
        trace: payment.trace.clone(),
    })
}

fn of_refund(of: PaymentFor, refund: &Refund) -> Option<ExpectedEvent> {
    let settled = RefundSettled {
        of,
        refund: refund.id,
        amount: refund.amount,
        currency: refund.currency,
        occurred_time: refund.update_time,
    };
    let body = match refund.status {
        RefundStatus::Processing => return None,
        RefundStatus::Success => EventBody::RefundSucceeded(RefundSucceeded(settled)),
        RefundStatus::Failed => EventBody::RefundFailed(RefundFailed(settled)),
    };
    Some(ExpectedEvent {
        body,
        aggregate_seq: refund.version,
        at: refund.update_time,
        trace: refund.trace.clone(),
    })
}
