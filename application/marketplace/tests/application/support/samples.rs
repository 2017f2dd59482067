//! Sample commands, events and messages.

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use handover_outbox::relay::envelope_of;
use marketplace::use_cases::SettlePayment;
use marketplace::*;
use marketplace_domain::*;

use super::{BUYER, SELLER, TENANT, World};

pub(crate) fn report(payment: &Payment, result: PaymentResult) -> SettlePayment {
    let transaction_id = format!("txn-{}", payment.id);
    SettlePayment {
        payment: payment.id.into(),
        body_hash: String::new(),
        report: Settlement { transaction_id, result, amount: payment.amount },
    }
}

pub(crate) fn by(user: i64) -> CommandContext {
    CommandContext {
        actor: Actor::User { id: user.try_into().unwrap(), roles: vec![Role::User] },
        tenant: TENANT,
        trace: Trace { trace_id: format!("trace-{user}"), traceparent: None },
        request_id: None,
    }
}

pub(crate) fn gateway() -> CommandContext {
    CommandContext { actor: Actor::Gateway, ..by(1) }
}

pub(crate) fn money(minor: i64) -> Money {
    Money::from_minor(minor).unwrap()
}

pub(crate) fn event_id(text: &str) -> EventId {
    text.parse().unwrap()
}

/// Events of sample orders: buyer 10 orders a product of seller 20 for 88.50. The product id is the order id plus 1000.
pub(crate) mod sample {
    use super::*;

    const AT: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn facts(order: i64) -> OrderFacts {
        OrderFacts {
            order_id: order.try_into().unwrap(),
            order_no: OrderNo::stored(format!("20260204103000{order:010}")),
            buyer_id: BUYER.try_into().unwrap(),
            seller_id: SELLER.try_into().unwrap(),
            total_amount: money(8_850),
        }
    }

    fn product(order: i64) -> ProductId {
        (order + 1_000).try_into().unwrap()
    }

    pub(crate) fn created(order: i64) -> EventBody {
        EventBody::OrderCreated(OrderCreated {
            order: facts(order),
            product: product(order),
            quantity: 1,
            price: money(8_850),
            coupon_id: None,
            wallet_amount: None,
            points: None,
        })
    }

    pub(crate) fn paid(order: i64) -> EventBody {
        let amount = money(8_850);
        let product = product(order);
        EventBody::OrderPaid(OrderPaid { order: facts(order), pay_time: AT, amount, product })
    }

    pub(crate) fn changed(order: i64) -> EventBody {
        EventBody::OrderStatusChanged(OrderStatusChanged {
            order: facts(order),
            old_status: OrderStatus::Paid,
            new_status: OrderStatus::Shipped,
            changed_at: AT,
        })
    }

    pub(crate) fn cancelled(order: i64) -> EventBody {
        EventBody::OrderCancelled(OrderCancelled {
            order: facts(order),
            reason: CancelReason::Buyer,
            cancelled_at: AT,
            product: product(order),
        })
    }

    pub(crate) fn timeout(order: i64, create_time: DateTime<Utc>) -> EventBody {
        EventBody::OrderTimeout(OrderTimeout { order: facts(order), create_time })
    }
}

impl World {
    /// An event with the current time.
    pub(crate) fn event(&self, id: &str, seq: i64, body: &EventBody) -> NewEvent {
        NewEvent {
            event_id: event_id(id),
            event_type: body.event_type().as_str().to_owned(),
            aggregate: AggregateRef {
                tenant: TENANT,
                kind: body.event_type().aggregate().to_owned(),
                id: body.aggregate_id().into(),
            },
            aggregate_seq: Some(seq),
            payload: body.to_json(),
            metadata: EventMetadata { trace_id: Some(format!("trace-{id}")), ..EventMetadata::default() },
            occurred_at: self.now(),
            max_retry_count: 3,
            routing_key: None,
            idle_consumers: IdleConsumers::default(),
            due: None,
        }
    }
}

/// The message of an outbox row.
pub(crate) fn message(row: &OutboxRow) -> Message {
    let headers = [
        ("tenantId", row.aggregate.tenant.to_string()),
        ("aggregateType", row.aggregate.kind.clone()),
        ("aggregateId", row.aggregate.id.to_string()),
        ("aggregateSeq", row.aggregate_seq.to_string()),
    ];
    Message {
        message_id: Some(row.event_id.to_string()),
        kind: Some(row.event_type.clone()),
        correlation_id: Some(row.trace_id().to_owned()),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
        body: envelope_of(row).unwrap().to_json(),
    }
}
