//! A small day that keeps every promise, built with the domain's own functions, so that the change made by a test is
//! the only violation.

mod assets;
mod effects;
mod invoices;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, ConsumeStatus, OutboxStatus, TenantId};
use handover_outbox::ports::{
    BodyForm, ConsumeRecord, Consumed, DeadLetter, DeadLetterStatus, DeliveryState, EndpointId,
    EventMetadata, IdleConsumers, OutboxRow, WebhookDelivery,
};
use marketplace::consumers::{INVENTORY_QUEUE, TIMEOUT_QUEUE, WEBHOOK_QUEUE};
use marketplace::ports::ListingEntry;
use marketplace_domain::{
    CancelCause, EventBody, EventKind, Money, NewOrder, Order, OrderAction, OrderActor, Payment,
    PaymentResult, PointsRules, Product, ProductStatus, RefundCause, RefundId, RefundResult, Settlement,
    Shipment, UserId,
};
use uuid::Uuid;

use super::super::super::broker_faults::{
    CorruptedMessage, CountsByQueueAndEvent, InjectedFaults, MessageCounts,
};
use super::super::super::database_snapshot::DatabaseSnapshot;
use super::super::super::journal::{ClientOrder, ClientRecord, Step};
use super::super::super::plan::AssetCoverage;
use super::super::super::webhook_receiver::WebhookRecord;
use super::super::{ConsumerEvents, Evidence, Expectations, Promise, check_all};

/// Id of the accepted order of the lamp that 64 buyers order at the same moment.
pub(super) const LAMP: i64 = 1;
/// Ids of orders, named after the final state of the order.
pub(super) const COMPLETED: i64 = 2;
pub(super) const SHIPPED: i64 = 3;
pub(super) const PAID: i64 = 4;
pub(super) const CANCELLED: i64 = 5;
pub(super) const TIMED_OUT: i64 = 6;
/// Id of an order whose first payment failed and whose second payment succeeded.
pub(super) const PAID_ON_RETRY: i64 = 7;
/// Ids of orders that use a coupon, wallet balance and points: one paid, one refunded at the second attempt.
pub(super) const WITH_ASSETS: i64 = 8;
pub(super) const REFUNDED: i64 = 9;
/// Id of an order that uses more assets than its buyer has.
pub(super) const REFUSED: i64 = 10;
/// Id of an order that was cancelled before its payment succeeded; the payment was refunded.
pub(super) const PAID_AFTER_CANCEL: i64 = 11;

/// Number in the id of the event whose messages were duplicated.
pub(super) const COPIED: i64 = 1;
/// Number in the id of the event that was published again.
pub(super) const REPUBLISHED: i64 = 3;

/// A day with all the evidence that the promises are checked against.
pub(super) struct SmallDay {
    pub(super) clients: ClientRecord,
    pub(super) database: DatabaseSnapshot,
    pub(super) injected: InjectedFaults,
    pub(super) consumers: Vec<ConsumerEvents>,
    pub(super) queued: u64,
    pub(super) webhooks: WebhookRecord,
    now: DateTime<Utc>,
}

impl SmallDay {
    /// A day without violations.
    pub(super) fn correct() -> SmallDay {
        let now: DateTime<Utc> = "2026-11-21T08:00:00Z".parse().unwrap();
        let consumers = [
            ("inventory", vec!["ORDER_CREATED", "ORDER_CANCELLED", "ORDER_REFUNDED"]),
            ("fulfillment", vec!["ORDER_PAID"]),
            ("status-sync", vec!["ORDER_STATUS_CHANGED"]),
            ("order-timeout", vec!["ORDER_TIMEOUT"]),
            ("webhooks", vec!["ORDER_CREATED"]),
        ];
        let consumers = consumers.map(|(name, event_types)| ConsumerEvents {
            name: name.to_owned(),
            event_types: event_types.into_iter().map(str::to_owned).collect(),
        });
        let mut day = SmallDay {
            clients: ClientRecord::default(),
            database: DatabaseSnapshot::default(),
            injected: InjectedFaults {
                message_counts: CountsByQueueAndEvent::default(),
                corrupted: Some(CorruptedMessage {
                    queue: "order.fulfillment.queue".to_owned(),
                    event: "event-1".parse().unwrap(),
                }),
                outage: Some((now, now + TimeDelta::seconds(3))),
            },
            consumers: consumers.to_vec(),
            queued: 0,
            webhooks: WebhookRecord { refused: 5, ..WebhookRecord::default() },
            now,
        };
        for order in LAMP..=PAID_AFTER_CANCEL {
            day.order(order);
        }
        day.invoices();
        day.deliver_webhooks();
        day.clients.rush.lamp = LAMP.try_into().ok();
        day.clients.rush.won = vec![LAMP.try_into().unwrap()];
        day.clients.rush.refused = 63;
        day.database.dead_letters.push(dead_letter(now));
        *day.counts(INVENTORY_QUEUE, COPIED) = MessageCounts { intact: 3, copies: 2, acked: 3 };
        *day.counts(WEBHOOK_QUEUE, COPIED) = MessageCounts { intact: 2, copies: 1, acked: 2 };
        // Published again because its confirm was lost.
        *day.counts(WEBHOOK_QUEUE, REPUBLISHED) = MessageCounts { intact: 2, copies: 0, acked: 2 };
        day
    }

    /// The receiver gets every ORDER_CREATED event.
    fn deliver_webhooks(&mut self) {
        let events = self.database.events.iter().filter(|event| event.event_type == "ORDER_CREATED");
        for (event, id) in events.zip(1..) {
            self.webhooks.accepted.insert(event.event_id.clone());
            self.database.webhooks.push(WebhookDelivery {
                id,
                endpoint: EndpointId(Uuid::nil()),
                tenant: TenantId::DEFAULT,
                event_id: event.event_id.clone(),
                redelivery: 0,
                event_type: "order.created".to_owned(),
                order_key: format!("Order/{}", event.aggregate.id),
                body: "{}".to_owned(),
                body_form: BodyForm::Thin,
                state: DeliveryState::Delivered,
                due_time: self.now,
                claim: None,
                claims: 0,
                attempts: 0,
                last_status: Some(204),
                last_error: None,
                create_time: self.now,
                settle_time: Some(self.now),
            });
        }
    }

    pub(super) fn broken(&self) -> Vec<&'static str> {
        self.results().into_iter().filter(|promise| !promise.kept).map(|promise| promise.name).collect()
    }

    pub(super) fn results(&self) -> Vec<Promise> {
        check_all(&Evidence {
            expected: Expectations {
                orders: 11,
                lamp_buyers: 64,
                payment_timeout: Duration::from_secs(3),
                cancel_delay_limit: Duration::from_secs(10),
                outage: Duration::from_secs(3),
                invoices: 2,
            },
            clients: &self.clients,
            database: &self.database,
            injected: &self.injected,
            consumers: &self.consumers,
            queued: self.queued,
            webhooks: &self.webhooks,
        })
    }

    pub(super) fn row(&mut self, order: i64) -> &mut Order {
        self.database.orders.get_mut(&order.try_into().unwrap()).unwrap()
    }

    /// The order according to the responses that its client received.
    pub(super) fn client(&mut self, order: i64) -> &mut ClientOrder {
        self.clients.orders.get_mut(&order.try_into().unwrap()).unwrap()
    }

    /// Counts of the messages of an event in a queue.
    pub(super) fn counts(&mut self, queue: &str, event: i64) -> &mut MessageCounts {
        let place = (queue.to_owned(), format!("event-{event}").parse().unwrap());
        self.injected.message_counts.entry(place).or_default()
    }

    fn order(&mut self, number: i64) {
        let (seller, buyer): (UserId, UserId) = (100.try_into().unwrap(), number.try_into().unwrap());
        let product = Product {
            id: number.try_into().unwrap(),
            tenant: TenantId::DEFAULT,
            seller,
            title: "Desk lamp".to_owned().try_into().unwrap(),
            price: Money::from_minor(8_850).unwrap(),
            status: ProductStatus::OnSale,
            version: 1,
            create_time: self.now,
            update_time: self.now,
        };
        let new = NewOrder { id: number.try_into().unwrap(), buyer, now: self.now };
        let assets = self.grant_and_use_assets(number, buyer);
        let (mut order, mut product, events) =
            Order::place(&product, new, &assets, PointsRules::default()).unwrap();
        self.add_events(&order, &events, number);
        let cover = if number == REFUSED { AssetCoverage::Insufficient } else { AssetCoverage::Sufficient };
        let mut client_order = ClientOrder { product: product.id, buyer, seller, step: Step::Placed, cover };
        let timeout = CancelCause::Timeout { created_by: self.now };
        let shipment = || Shipment::new("SF".to_owned(), "T1".to_owned()).unwrap();
        let failed: RefundId = (number * 100).try_into().unwrap();
        let refund: RefundId = (number * 100 + 1).try_into().unwrap();
        let refunded = OrderAction::Refund {
            refund,
            amount: order.payable,
            cause: RefundCause::Operator,
            off_shelf: false,
        };
        let steps = match number {
            LAMP | COMPLETED => vec![
                (OrderAction::Pay, OrderActor::Gateway, Step::Paid),
                (OrderAction::Ship(shipment()), OrderActor::Seller, Step::Shipped),
                (OrderAction::Complete, OrderActor::Buyer, Step::Completed),
            ],
            SHIPPED => vec![
                (OrderAction::Pay, OrderActor::Gateway, Step::Paid),
                (OrderAction::Ship(shipment()), OrderActor::Seller, Step::Shipped),
            ],
            PAID | PAID_ON_RETRY | WITH_ASSETS => vec![(OrderAction::Pay, OrderActor::Gateway, Step::Paid)],
            REFUNDED => vec![
                (OrderAction::Pay, OrderActor::Gateway, Step::Paid),
                (OrderAction::BeginRefund { refund: failed }, OrderActor::Buyer, Step::Paid),
                (OrderAction::AbandonRefund { refund: failed }, OrderActor::Gateway, Step::Paid),
                (OrderAction::BeginRefund { refund }, OrderActor::Operator, Step::Paid),
                (refunded, OrderActor::Gateway, Step::Refunded),
            ],
            REFUSED => {
                let refused = OrderAction::Cancel(CancelCause::AssetLockFailed);
                vec![(refused, OrderActor::System, Step::Placed)]
            }
            PAID_AFTER_CANCEL => {
                let cancel = OrderAction::Cancel(CancelCause::Buyer);
                vec![(cancel, OrderActor::Buyer, Step::PaidAfterCancel)]
            }
            CANCELLED => vec![(OrderAction::Cancel(CancelCause::Buyer), OrderActor::Buyer, Step::Cancelled)],
            _ => vec![(OrderAction::Cancel(timeout), OrderActor::System, Step::Placed)],
        };
        for (action, actor, step) in steps {
            if action == OrderAction::Pay {
                self.pay(&order, number == PAID_ON_RETRY);
            }
            let result = match action {
                OrderAction::AbandonRefund { .. } => Some((failed, RefundResult::Failed)),
                OrderAction::Refund { .. } => Some((refund, RefundResult::Success)),
                _ => None,
            };
            if let Some((id, result)) = result {
                let payment = self.database.payments[&order.id][0].clone();
                self.refund(&order, &payment, id.get(), result);
            }
            let at = self.now + TimeDelta::seconds(4);
            let (after, events) = order.apply(&action, actor, at).unwrap();
            self.add_events(&after, &events, number);
            if let Some(product_action) = action.product_action() {
                product = product.apply(product_action, at).unwrap();
            }
            (order, client_order.step) = (after, step);
        }
        if number == PAID_AFTER_CANCEL {
            self.pay(&order, false);
            let payment = self.database.payments[&order.id][0].clone();
            self.refund(&order, &payment, refund.get(), RefundResult::Success);
        }
        let taken = (product.status == ProductStatus::Sold).then_some(order.id);
        self.database.listings.entry(seller).or_default().push(ListingEntry {
            product: product.id,
            taken_by: taken,
            event_id: "event-1".parse().unwrap(),
            update_time: self.now,
        });
        self.clients.products.insert(product.id, seller);
        self.clients.orders.insert(order.id, client_order);
        self.database.products.insert(product.id, product);
        self.database.orders.insert(order.id, order);
    }

    fn pay(&mut self, order: &Order, failed_first: bool) {
        let results = [PaymentResult::Failed, PaymentResult::Success];
        for (number, result) in results.into_iter().enumerate().skip(usize::from(!failed_first)) {
            let id = order.id.get() * 10 + i64::try_from(number).unwrap();
            let payment = Payment {
                id: id.try_into().unwrap(),
                of: order.id.into(),
                amount: order.payable,
                ..self.new_payment()
            };
            let report = Settlement { transaction_id: format!("txn-{id}"), result, amount: order.payable };
            let decision = payment.decide(&report, &order.clone().into(), 0, None, self.now);
            let (settled, event) = decision.settled.unwrap();
            self.publish(event, settled.version);
            if let Some(capture) = decision.capture {
                self.capture(order, capture);
            }
            self.database.payments.entry(order.id).or_default().push(settled);
        }
    }

    fn add_events(&mut self, order: &Order, events: &[EventBody], number: i64) {
        for event in events {
            let row = self.publish(event.clone(), order.version);
            self.apply(&row, event, number);
            self.apply_to_assets(&row, event, order);
        }
    }

    /// Adds the outbox row of an event, SENT, and the consume-log records of its consumers.
    fn publish(&mut self, event: EventBody, aggregate_seq: i64) -> OutboxRow {
        let id = i64::try_from(self.database.events.len()).unwrap() + 1;
        let row = OutboxRow {
            id,
            event_id: format!("event-{id}").parse().unwrap(),
            event_type: event.event_type().as_str().to_owned(),
            aggregate: AggregateRef {
                tenant: TenantId::DEFAULT,
                kind: event.event_type().aggregate().to_owned(),
                id: event.aggregate_id().into(),
            },
            aggregate_seq,
            payload: event.to_json(),
            metadata: EventMetadata::default(),
            status: OutboxStatus::Sent,
            retry_count: 0,
            max_retry_count: 3,
            idle_consumers: IdleConsumers::default(),
            routing_key: None,
            next_retry_time: None,
            last_error: None,
            create_time: self.now,
            update_time: self.now,
            sent_time: Some(self.now),
            released_time: None,
            erased_time: None,
            erased_reason: None,
            restored_time: None,
        };
        self.database.events.push(row.clone());
        if event.event_type() == EventKind::OrderTimeout {
            *self.counts(TIMEOUT_QUEUE, id) = MessageCounts { intact: 1, copies: 0, acked: 1 };
        }
        for consumer in
            self.consumers.iter().filter(|consumer| consumer.event_types.contains(&row.event_type))
        {
            self.database.consumed.push(consumed(&consumer.name, &row, self.now));
        }
        row
    }
}

/// A consume-log record with status SUCCESS.
pub(super) fn consumed(consumer: &str, row: &OutboxRow, now: DateTime<Utc>) -> Consumed {
    Consumed {
        consumer: consumer.to_owned(),
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: row.aggregate_seq,
        record: ConsumeRecord {
            status: ConsumeStatus::Success,
            attempts: 1,
            next_retry_time: None,
            lease_until: None,
            error_message: None,
            consume_time: now,
        },
        idempotency_key: None,
        consume_result: None,
        payload_hash: String::new(),
        trace_id: String::new(),
        cost_ms: 0,
    }
}

fn dead_letter(now: DateTime<Utc>) -> DeadLetter {
    DeadLetter {
        queue: "order.fulfillment.queue".to_owned(),
        key: "spoiled".to_owned(),
        tenant: TenantId::DEFAULT,
        event_type: None,
        trace_id: None,
        body: "{".to_owned(),
        reason: "the body is not a valid envelope".to_owned(),
        died_at: now,
        status: DeadLetterStatus::Discarded,
        decided_at: Some(now),
        note: Some("corrupted on purpose".to_owned()),
    }
}
