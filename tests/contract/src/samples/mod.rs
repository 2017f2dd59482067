//! Sample values to test with: plain, valid, and the same in every run. Change what matters by struct update:
//! `NewEvent { occurred_at: later(5), ..event("e-1", 7, 1) }`.

mod assets;
mod requests;

pub use assets::*;
pub use requests::*;

use chrono::{DateTime, TimeDelta, Utc};
use handover_application::ports::{
    CreditChange, ListingChange, ListingChangeKind, NewShipmentTask, Notification, OrderSide,
};
use handover_domain::{
    AggregateType, CancelReason, CreditStep, Currency, EventType, Money, Order, OrderAssets, OrderId,
    OrderNo, OrderStatus, Payment, PaymentId, PaymentStatus, Product, ProductId, ProductStatus, Shipment,
    Title, UserId,
};
use handover_events::{
    AggregateRef, ConsumeStatus, EventId, HistoryKind, OutboxStatus, Partition, PartitionSet, TenantId, Trace,
};
use handover_outbox::ports::{
    AuditEntry, Confirmed, ConsumeRecord, Consumed, Consumption, DeadLetter, DeadLetterStatus, Decision,
    DueQuery, EventMetadata, Expected, FailedPublish, HistoryEntry, Message, NewEvent, OnFailed, Outgoing,
    PublishOutcome, Redrive, RelayId, Route, UnorderedTypes,
};

/// A title, message or name that only survives where text is kept as it is.
pub const AWKWARD: &str = "二手相机 “Zenit” 📷 it's \"50%\" off \\ ; -- é";

/// When every sample begins: a moment with microseconds.
pub fn start() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_770_201_000_123_456).expect("a moment within range")
}

/// So many seconds after [`start`]; before it, if negative.
pub fn later(seconds: i64) -> DateTime<Utc> {
    start() + TimeDelta::seconds(seconds)
}

/// A tenant.
pub fn tenant(number: i64) -> TenantId {
    number.try_into().expect("a legal id")
}

/// A user.
pub fn user(number: i64) -> UserId {
    number.try_into().expect("a legal id")
}

/// A product id.
pub fn product_id(number: i64) -> ProductId {
    number.try_into().expect("a legal id")
}

/// An order id.
pub fn order_id(number: i64) -> OrderId {
    number.try_into().expect("a legal id")
}

/// A payment id.
pub fn payment_id(number: i64) -> PaymentId {
    number.try_into().expect("a legal id")
}

/// An event id.
pub fn event_id(text: &str) -> EventId {
    text.parse().expect("a legal event id")
}

/// A run of a relay.
pub fn relay(name: &str) -> RelayId {
    RelayId(name.to_owned())
}

/// An amount in minor units.
pub fn money(minor: i64) -> Money {
    Money::from_minor(minor).expect("a legal amount")
}

/// A title.
pub fn title(text: &str) -> Title {
    text.to_owned().try_into().expect("a legal title")
}

/// A product of tenant 1 and seller 20, on sale for 88.50.
pub fn product(id: i64) -> Product {
    Product {
        id: product_id(id),
        tenant: TenantId::DEFAULT,
        seller: user(20),
        title: title("a camera"),
        price: money(8_850),
        status: ProductStatus::OnSale,
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// A pending order of tenant 1: buyer 10 buys product `id + 1000` from seller 20 for 88.50.
pub fn order(id: i64) -> Order {
    Order {
        id: order_id(id),
        order_no: OrderNo::new(start(), order_id(id)),
        tenant: TenantId::DEFAULT,
        product: product_id(id % 1_000_000 + 1000),
        buyer: user(10),
        seller: user(20),
        status: OrderStatus::Pending,
        cancel_reason: None,
        total: money(8_850),
        assets: OrderAssets::NONE,
        payable: money(8_850),
        refund: None,
        shipment: None,
        version: 1,
        create_time: start(),
        pay_time: None,
        update_time: start(),
    }
}

/// The order one version on, in another status, with all that the status brings.
pub fn order_moved_to(order: &Order, status: OrderStatus, at: DateTime<Utc>) -> Order {
    let paid = matches!(
        status,
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded
    );
    let shipped = matches!(status, OrderStatus::Shipped | OrderStatus::Completed);
    Order {
        status,
        cancel_reason: (status == OrderStatus::Cancelled).then_some(CancelReason::Timeout),
        pay_time: if paid { order.pay_time.or(Some(at)) } else { None },
        shipment: if shipped {
            order.shipment.clone().or_else(|| Shipment::new("顺丰".into(), "SF-001".into()).ok())
        } else {
            None
        },
        version: order.version + 1,
        update_time: at,
        ..order.clone()
    }
}

/// The trace of a request.
pub fn trace() -> Trace {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Trace { trace_id: "trace-1".into(), traceparent: Some(traceparent.into()) }
}

/// A payment of tenant 1 in `PROCESSING`.
pub fn payment(id: i64, order: i64) -> Payment {
    Payment {
        id: payment_id(id),
        tenant: TenantId::DEFAULT,
        order: order_id(order),
        amount: money(8_850),
        currency: Currency::CNY,
        method: "card".into(),
        status: PaymentStatus::Processing,
        transaction_id: None,
        refund_due: false,
        trace: Some(trace()),
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// The payment one version on, settled by a transaction of the gateway.
pub fn settled(payment: &Payment, status: PaymentStatus, transaction: &str) -> Payment {
    Payment {
        status,
        transaction_id: Some(transaction.to_owned()),
        version: payment.version + 1,
        update_time: later(1),
        ..payment.clone()
    }
}

/// An order of tenant 1 as an aggregate.
pub fn aggregate(id: i64) -> AggregateRef {
    AggregateRef { tenant: TenantId::DEFAULT, kind: AggregateType::Order.as_str().to_owned(), id }
}

/// The partition of an order of tenant 1.
pub fn partition(id: i64) -> Partition {
    Partition::of(TenantId::DEFAULT, id)
}

/// An `ORDER_PAID` about an order of tenant 1.
pub fn event(id: &str, order: i64, seq: i64) -> NewEvent {
    NewEvent {
        event_id: event_id(id),
        event_type: EventType::OrderPaid.as_str().to_owned(),
        aggregate: aggregate(order),
        aggregate_seq: seq,
        payload: format!("{{\"orderId\":{order},\"totalAmount\":88.50}}"),
        metadata: EventMetadata { trace_id: Some("trace-1".into()), ..EventMetadata::default() },
        occurred_at: start(),
        max_retry_count: 4,
    }
}

/// The types of the samples that have no place in the order of their aggregate.
pub fn unordered() -> UnorderedTypes {
    [EventType::OrderTimeout.as_str()].into_iter().collect()
}

/// Asks for what is due at a moment in every partition, at most 100 rows.
pub fn due_at(now: DateTime<Utc>) -> DueQuery {
    DueQuery {
        partitions: PartitionSet::ALL,
        now,
        on_failed: OnFailed::Continue,
        unordered: unordered(),
        limit: 100,
    }
}

/// The same event with another type.
pub fn of_type(event_type: EventType, event: NewEvent) -> NewEvent {
    NewEvent { event_type: event_type.as_str().to_owned(), ..event }
}

/// Proof that a broker has the event, as `mark_sent` asks for.
pub fn confirmed(id: &str) -> Confirmed {
    match Outgoing::new(event_id(id), "order.paid".into(), Message::default()).confirmed() {
        PublishOutcome::Confirmed(proof) => proof,
        PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => {
            unreachable!("a confirm is a confirm")
        }
    }
}

/// A failed publish that is tried again at `due`.
pub fn to_retry(id: &str, due: Option<DateTime<Utc>>) -> FailedPublish {
    FailedPublish {
        event_id: event_id(id),
        status: OutboxStatus::Retry,
        retry_count: 1,
        next_retry_time: due,
        error: "消息发送失败: no queue takes it".into(),
    }
}

/// A failed publish that was the last.
pub fn to_failed(id: &str) -> FailedPublish {
    FailedPublish {
        status: OutboxStatus::Failed,
        retry_count: 4,
        next_retry_time: None,
        ..to_retry(id, None)
    }
}

/// A row that is to be published again then.
pub fn redrive(id: &str, due: DateTime<Utc>) -> Redrive {
    Redrive { event_id: event_id(id), due }
}

/// An entry of the history of an event of tenant 1: its first attempt was not confirmed.
pub fn history_entry(id: &str) -> HistoryEntry {
    HistoryEntry {
        tenant: TenantId::DEFAULT,
        event_id: event_id(id),
        kind: HistoryKind::Retry,
        consumer: None,
        attempts: 1,
        detail: Some("消息发送失败: no queue takes it".into()),
        at: start(),
    }
}

/// A row of the consume log about this event: the first, applied at once.
pub fn consumption(consumer: &str, event: &NewEvent) -> Consumption {
    Consumption {
        consumer: consumer.to_owned(),
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        aggregate: event.aggregate.clone(),
        aggregate_seq: event.aggregate_seq,
        expected: Expected::Absent,
        status: ConsumeStatus::Success,
        attempts: 1,
        next_retry_time: None,
        lease_until: None,
        error_message: None,
        idempotency_key: None,
        consume_result: None,
        payload_hash: "ab".repeat(32),
        trace_id: "trace-1".into(),
        cost_ms: 3,
        consume_time: start(),
    }
}

/// What is read back after a consumption was recorded.
pub fn as_recorded(written: &Consumption) -> ConsumeRecord {
    ConsumeRecord {
        status: written.status,
        attempts: written.attempts,
        next_retry_time: written.next_retry_time,
        lease_until: written.lease_until,
        error_message: written.error_message.clone(),
        consume_time: written.consume_time,
    }
}

/// The same as a person looks at it.
pub fn as_consumed(written: &Consumption) -> Consumed {
    Consumed {
        consumer: written.consumer.clone(),
        event_id: written.event_id.clone(),
        event_type: written.event_type.clone(),
        aggregate: written.aggregate.clone(),
        aggregate_seq: written.aggregate_seq,
        record: as_recorded(written),
        idempotency_key: written.idempotency_key.clone(),
        consume_result: written.consume_result.clone(),
        payload_hash: written.payload_hash.clone(),
        trace_id: written.trace_id.clone(),
        cost_ms: written.cost_ms,
    }
}

/// A decision about an open dead letter.
pub fn decision(queue: &str, key: &str, to: DeadLetterStatus) -> Decision {
    Decision {
        queue: queue.to_owned(),
        key: key.to_owned(),
        from: vec![DeadLetterStatus::Open],
        to,
        note: None,
        at: start(),
    }
}

/// An action of an operator of tenant 1.
pub fn audit_entry(action: &str) -> AuditEntry {
    AuditEntry {
        tenant: TenantId::DEFAULT,
        actor: "user:9".into(),
        action: action.to_owned(),
        selection: "{\"eventIds\":[\"e-1\"]}".into(),
        matched: 2,
        changed: 1,
        reason: Some("the cause is mended".into()),
        trace_id: "trace-1".into(),
        at: start(),
    }
}

/// An open dead letter of tenant 1.
pub fn dead_letter(queue: &str, key: &str) -> DeadLetter {
    DeadLetter {
        queue: queue.to_owned(),
        key: key.to_owned(),
        tenant: TenantId::DEFAULT,
        event_type: Some("ORDER_PAID".into()),
        trace_id: Some("trace-1".into()),
        body: "{}".into(),
        reason: "消息消费失败".into(),
        died_at: start(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    }
}

/// Bodies of messages that others send, each with its name: no adapter may refuse one.
pub fn hostile_bodies() -> Vec<(&'static str, String)> {
    let controls: String = (0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32).collect();
    vec![
        ("empty", String::new()),
        ("NUL", "{\"title\":\"a\0b\"}".into()),
        ("NUL alone", "\0".into()),
        ("NUL as an escape", r#"{"title":"\u0000"}"#.into()),
        ("100 KB of NUL", "\0".repeat(100_000)),
        ("bytes that are no UTF-8, as they are handed on", "\\xff\\x00 \u{fffd}\u{feff}".into()),
        ("control characters", controls),
        ("characters of four bytes", "📷".repeat(40_000)),
        ("not a character", "\u{ffff}\u{10ffff}".into()),
        ("lone surrogates", r#"{"title":"\ud800 \udfff"}"#.into()),
        ("deep nesting", "[".repeat(100_000)),
        ("duplicate keys", r#"{"eventId":"a","eventId":"b","payload":{"x":1,"x":2}}"#.into()),
        ("huge numbers", format!(r#"{{"aggregateId":1e999999,"payload":{}}}"#, "9".repeat(50_000))),
        ("200 KB of two bytes a character", "é".repeat(100_000)),
    ]
}

/// A change of seller 20's listing in tenant 1.
pub fn listing_change(product: i64, order: i64, kind: ListingChangeKind, event: &str) -> ListingChange {
    ListingChange {
        tenant: TenantId::DEFAULT,
        seller: user(20),
        product: product_id(product),
        order: order_id(order),
        aggregate_seq: 1,
        kind,
        event_id: event_id(event),
        at: start(),
    }
}

/// A shipment task of tenant 1 from seller 20 to buyer 10.
pub fn shipment_task(order: i64, event: &str) -> NewShipmentTask {
    NewShipmentTask {
        tenant: TenantId::DEFAULT,
        order: order_id(order),
        seller: user(20),
        buyer: user(10),
        aggregate_seq: 2,
        event_id: event_id(event),
        at: start(),
    }
}

/// A notification of tenant 1 to this user, as the buyer: the order was shipped.
pub fn notification(order: i64, recipient: i64, event: &str) -> Notification {
    Notification {
        tenant: TenantId::DEFAULT,
        recipient: user(recipient),
        side: OrderSide::Buyer,
        order: order_id(order),
        aggregate_seq: 3,
        old_status: OrderStatus::Paid,
        new_status: OrderStatus::Shipped,
        changed_at: start(),
        event_id: event_id(event),
        at: start(),
    }
}

/// A change of this buyer's credit in tenant 1.
pub fn credit_change(buyer: i64, order: i64, step: CreditStep, event: &str) -> CreditChange {
    CreditChange {
        tenant: TenantId::DEFAULT,
        buyer: user(buyer),
        order: order_id(order),
        aggregate_seq: 4,
        step,
        event_id: event_id(event),
        at: start(),
    }
}

/// A message on its way, with every property set.
pub fn outgoing(id: &str, routing_key: &str) -> Outgoing {
    sent_by(event_id(id), Route::Topic(routing_key.to_owned()), message(id))
}

/// A message that goes this way.
pub fn sent_by(event: EventId, route: Route, message: Message) -> Outgoing {
    match route {
        Route::Topic(key) => Outgoing::new(event, key, message),
        Route::Queue(queue) => Outgoing::to_queue(event, queue, message),
    }
}

/// A message with every property set.
pub fn message(id: &str) -> Message {
    let headers = [("tenantId", "1"), ("aggregateType", "Order"), ("aggregateId", "7")];
    Message {
        message_id: Some(id.to_owned()),
        kind: Some("ORDER_PAID".into()),
        correlation_id: Some("trace-1".into()),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: format!("{{\"eventId\":\"{id}\"}}"),
    }
}
