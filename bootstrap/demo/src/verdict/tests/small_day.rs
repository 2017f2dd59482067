//! A small day on which every promise was kept, made of the domain's own decisions: what a rule takes away from it or
//! adds to it is the only thing wrong.

mod assets;
mod effects;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, ConsumeStatus, OutboxStatus, TenantId};
use handover_outbox::ports::{
    ConsumeRecord, Consumed, DeadLetter, DeadLetterStatus, EventMetadata, OutboxRow,
};
use marketplace::ports::ListingEntry;
use marketplace::queues::{INVENTORY_QUEUE, TIMEOUT_QUEUE, WEBHOOK_QUEUE};
use marketplace_domain::{
    CancelCause, Currency, EventBody, EventType, Money, NewOrder, Order, OrderAction, OrderActor, Payment,
    PaymentResult, PaymentStatus, PointsRules, Product, ProductAction, ProductStatus, RefundId, RefundResult,
    Settlement, Shipment, UserId,
};

use super::super::super::books::Books;
use super::super::super::journal::{Account, Step, Told};
use super::super::super::mishaps::{Happened, Spoiled, Way, Ways};
use super::super::super::plan::Cover;
use super::super::{Evidence, Promise, Taker, Terms, judge};

/// The order of the lamp.
pub(super) const LAMP: i64 = 1;
/// Orders and how they end.
pub(super) const COMPLETED: i64 = 2;
pub(super) const SHIPPED: i64 = 3;
pub(super) const PAID: i64 = 4;
pub(super) const CANCELLED: i64 = 5;
pub(super) const TIMED_OUT: i64 = 6;
/// The first payment failed, the second succeeded.
pub(super) const PAID_LATER: i64 = 7;
/// Orders that name a coupon, wallet and points: paid, and refunded at the second try.
pub(super) const HELD: i64 = 8;
pub(super) const REFUNDED: i64 = 9;
/// One that names more than its buyer has.
pub(super) const REFUSED: i64 = 10;
/// Cancelled before the money came, which went back.
pub(super) const PAID_TOO_LATE: i64 = 11;

/// The event whose messages came twice, and the one that was sent twice.
pub(super) const COPIED: i64 = 1;
pub(super) const SENT_TWICE: i64 = 3;

/// A day, and what it is judged by.
pub(super) struct SmallDay {
    pub(super) told: Account,
    pub(super) books: Books,
    pub(super) happened: Happened,
    pub(super) takers: Vec<Taker>,
    pub(super) queued: u64,
    now: DateTime<Utc>,
}

impl SmallDay {
    /// A day without a fault.
    pub(super) fn kept() -> SmallDay {
        let now: DateTime<Utc> = "2026-11-21T08:00:00Z".parse().unwrap();
        let takers = [
            ("inventory", vec!["ORDER_CREATED", "ORDER_CANCELLED", "ORDER_REFUNDED"]),
            ("fulfillment", vec!["ORDER_PAID"]),
            ("status-sync", vec!["ORDER_STATUS_CHANGED"]),
            ("order-timeout", vec!["ORDER_TIMEOUT"]),
        ];
        let takers = takers.map(|(consumer, takes)| Taker {
            consumer: consumer.to_owned(),
            takes: takes.into_iter().map(str::to_owned).collect(),
        });
        let mut day = SmallDay {
            told: Account::default(),
            books: Books::default(),
            happened: Happened {
                ways: Ways::default(),
                spoiled: Some(Spoiled {
                    queue: "order.fulfillment.queue".to_owned(),
                    event: "event-1".parse().unwrap(),
                }),
                away: Some((now, now + TimeDelta::seconds(3))),
            },
            takers: takers.to_vec(),
            queued: 0,
            now,
        };
        for order in LAMP..=PAID_TOO_LATE {
            day.order(order);
        }
        day.told.rush.lamp = LAMP.try_into().ok();
        day.told.rush.won = vec![LAMP.try_into().unwrap()];
        day.told.rush.refused = 63;
        day.books.dead_letters.push(letter(now));
        *day.way(INVENTORY_QUEUE, COPIED) = Way { whole: 3, copies: 2, acked: 3 };
        *day.way(WEBHOOK_QUEUE, COPIED) = Way { whole: 2, copies: 1, acked: 2 };
        // Its confirm was lost.
        *day.way(WEBHOOK_QUEUE, SENT_TWICE) = Way { whole: 2, copies: 0, acked: 2 };
        day
    }

    /// The names of the promises that are broken.
    pub(super) fn broken(&self) -> Vec<&'static str> {
        self.judged().into_iter().filter(|promise| !promise.kept).map(|promise| promise.name).collect()
    }

    pub(super) fn judged(&self) -> Vec<Promise> {
        judge(&Evidence {
            terms: Terms {
                orders: 11,
                crowd: 64,
                pending: Duration::from_secs(3),
                bound: Duration::from_secs(10),
                outage: Duration::from_secs(3),
            },
            told: &self.told,
            books: &self.books,
            happened: &self.happened,
            takers: &self.takers,
            queued: self.queued,
        })
    }

    /// An order of this day, to be changed.
    pub(super) fn row(&mut self, order: i64) -> &mut Order {
        self.books.orders.get_mut(&order.try_into().unwrap()).unwrap()
    }

    /// What the client of an order was told, to be changed.
    pub(super) fn client(&mut self, order: i64) -> &mut Told {
        self.told.orders.get_mut(&order.try_into().unwrap()).unwrap()
    }

    /// What became of the messages of an event at a queue, to be changed.
    pub(super) fn way(&mut self, queue: &str, event: i64) -> &mut Way {
        let place = (queue.to_owned(), format!("event-{event}").parse().unwrap());
        self.happened.ways.entry(place).or_default()
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
        let asked = self.asked(number, buyer);
        let (mut order, mut product, events) =
            Order::place(&product, new, &asked, PointsRules::default()).unwrap();
        self.announce(&order, &events, number);
        let cover = if number == REFUSED { Cover::TooLittle } else { Cover::Enough };
        let mut told = Told { product: product.id, buyer, seller, step: Step::Placed, cover };
        let timeout = CancelCause::Timeout { created_by: self.now };
        let shipment = || Shipment::new("SF".to_owned(), "T1".to_owned()).unwrap();
        let failed: RefundId = (number * 100).try_into().unwrap();
        let refund: RefundId = (number * 100 + 1).try_into().unwrap();
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
            PAID | PAID_LATER | HELD => vec![(OrderAction::Pay, OrderActor::Gateway, Step::Paid)],
            REFUNDED => vec![
                (OrderAction::Pay, OrderActor::Gateway, Step::Paid),
                (OrderAction::BeginRefund { refund: failed }, OrderActor::Buyer, Step::Paid),
                (OrderAction::AbandonRefund { refund: failed }, OrderActor::Gateway, Step::Paid),
                (OrderAction::BeginRefund { refund }, OrderActor::Operator, Step::Paid),
                (OrderAction::Refund { refund, amount: order.payable }, OrderActor::Gateway, Step::Refunded),
            ],
            REFUSED => {
                let refused = OrderAction::Cancel(CancelCause::AssetLockFailed);
                vec![(refused, OrderActor::System, Step::Placed)]
            }
            PAID_TOO_LATE => {
                let cancel = OrderAction::Cancel(CancelCause::Buyer);
                vec![(cancel, OrderActor::Buyer, Step::PaidTooLate)]
            }
            CANCELLED => vec![(OrderAction::Cancel(CancelCause::Buyer), OrderActor::Buyer, Step::Cancelled)],
            _ => vec![(OrderAction::Cancel(timeout), OrderActor::System, Step::Placed)],
        };
        for (action, actor, step) in steps {
            if action == OrderAction::Pay {
                self.pay(&order, number == PAID_LATER);
            }
            let result = match action {
                OrderAction::AbandonRefund { .. } => Some((failed, RefundResult::Failed)),
                OrderAction::Refund { .. } => Some((refund, RefundResult::Success)),
                _ => None,
            };
            if let Some((id, result)) = result {
                let payment = self.books.payments[&order.id][0].clone();
                self.refund(&order, &payment, id.get(), result);
            }
            let at = self.now + TimeDelta::seconds(4);
            let (after, events) = order.apply(&action, actor, at).unwrap();
            self.announce(&after, &events, number);
            if after.status.frees_product() {
                product = product.apply(ProductAction::Release, at).unwrap();
            }
            (order, told.step) = (after, step);
        }
        if number == PAID_TOO_LATE {
            self.pay(&order, false);
            let payment = self.books.payments[&order.id][0].clone();
            self.refund(&order, &payment, refund.get(), RefundResult::Success);
        }
        let taken = (product.status == ProductStatus::Sold).then_some(order.id);
        self.books.listings.entry(seller).or_default().push(ListingEntry {
            product: product.id,
            taken_by: taken,
            event_id: "event-1".parse().unwrap(),
            update_time: self.now,
        });
        self.told.products.insert(product.id, seller);
        self.told.orders.insert(order.id, told);
        self.books.products.insert(product.id, product);
        self.books.orders.insert(order.id, order);
    }

    fn pay(&mut self, order: &Order, failed_first: bool) {
        let results = [PaymentResult::Failed, PaymentResult::Success];
        for (number, result) in results.into_iter().enumerate().skip(usize::from(!failed_first)) {
            let id = order.id.get() * 10 + i64::try_from(number).unwrap();
            let payment = Payment {
                id: id.try_into().unwrap(),
                tenant: TenantId::DEFAULT,
                order: order.id,
                amount: order.payable,
                currency: Currency::CNY,
                method: "card".to_owned(),
                status: PaymentStatus::Processing,
                transaction_id: None,
                refund_due: false,
                trace: None,
                version: 1,
                create_time: self.now,
                update_time: self.now,
            };
            let report = Settlement { transaction_id: format!("txn-{id}"), result, amount: order.payable };
            let (settled, event) = payment.settle(&report, order, self.now).unwrap().unwrap();
            self.publish(event, settled.version);
            if result == PaymentResult::Success {
                self.capture(order, &settled);
            }
            self.books.payments.entry(order.id).or_default().push(settled);
        }
    }

    fn announce(&mut self, order: &Order, events: &[EventBody], number: i64) {
        for event in events {
            let row = self.publish(event.clone(), order.version);
            self.apply(&row, event, number);
            self.apply_to_assets(&row, event, order);
        }
    }

    /// The outbox row of an event, confirmed, and settled by whoever takes it.
    fn publish(&mut self, event: EventBody, aggregate_seq: i64) -> OutboxRow {
        let id = i64::try_from(self.books.events.len()).unwrap() + 1;
        let row = OutboxRow {
            id,
            event_id: format!("event-{id}").parse().unwrap(),
            event_type: event.event_type().as_str().to_owned(),
            aggregate: AggregateRef {
                tenant: TenantId::DEFAULT,
                kind: event.event_type().aggregate().as_str().to_owned(),
                id: event.aggregate_id(),
            },
            aggregate_seq,
            payload: event.to_json(),
            metadata: EventMetadata::default(),
            status: OutboxStatus::Sent,
            retry_count: 0,
            max_retry_count: 3,
            next_retry_time: None,
            last_error: None,
            create_time: self.now,
            update_time: self.now,
            sent_time: Some(self.now),
            released_time: None,
        };
        self.books.events.push(row.clone());
        if event.event_type() == EventType::OrderTimeout {
            *self.way(TIMEOUT_QUEUE, id) = Way { whole: 1, copies: 0, acked: 1 };
        }
        for taker in self.takers.iter().filter(|taker| taker.takes.contains(&row.event_type)) {
            self.books.consumed.push(consumed(&taker.consumer, &row, self.now));
        }
        row
    }
}

/// A row of the consume log that says SUCCESS.
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

fn letter(now: DateTime<Utc>) -> DeadLetter {
    DeadLetter {
        queue: "order.fulfillment.queue".to_owned(),
        key: "spoiled".to_owned(),
        tenant: TenantId::DEFAULT,
        event_type: None,
        trace_id: None,
        body: "{".to_owned(),
        reason: "it is no envelope".to_owned(),
        died_at: now,
        status: DeadLetterStatus::Discarded,
        decided_at: Some(now),
        note: Some("spoiled on purpose".to_owned()),
    }
}
