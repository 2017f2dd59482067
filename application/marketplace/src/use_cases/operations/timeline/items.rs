//! From rows to what a person reads of them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, HistoryKind, OutboxStatus};
use marketplace_domain::{
    Asset, AssetOperation, EventBody, OperationKind, OrderStatus, Payment, PaymentSettled, PaymentStatus,
    Refund, RefundCause, RefundSettled, RefundStatus,
};

use super::{Shares, Sight, TimelineItem, TimelineKind};
use crate::App;
use crate::ports::{CreditChange, ListingChange, ListingChangeKind, Notification, OrderSide, ShipmentTask};
use handover_outbox::MASK;
use handover_outbox::ports::{Consumed, DeadLetter, DeadLetterStatus, HistoryEntry, OutboxRow};
use handover_outbox::relay::envelope_of;

const CONFIRMED: &str = "confirmed by the broker";
const NOT_CONFIRMED: &str = "not confirmed; to be published again";
const GIVEN_UP: &str = "given up before the broker confirmed it";
const REDRIVEN: &str = "to be published once more";

/// The items of a timeline, each with its place among those of its moment.
pub(super) struct Items<'a> {
    sight: Sight,
    shares: Shares,
    /// The consumers by their queues.
    consumers: BTreeMap<&'static str, &'static str>,
    events: BTreeMap<&'a EventId, &'a OutboxRow>,
    placed: Vec<(Place, TimelineItem)>,
}

/// When, then which event first, then what of that event first.
type Place = (DateTime<Utc>, i64, TimelineKind);

impl<'a> Items<'a> {
    pub(super) fn new(app: &App, sight: Sight, shares: Shares, rows: &'a [OutboxRow]) -> Items<'a> {
        let consumers = app
            .subscribers()
            .iter()
            .map(|subscriber| (subscriber.queue, subscriber.handler.name()))
            .collect();
        let events = rows.iter().map(|row| (&row.event_id, row)).collect();
        Items { sight, shares, consumers, events, placed: Vec::new() }
    }

    pub(super) fn in_order(mut self) -> Vec<TimelineItem> {
        self.placed.sort_by_key(|(place, _)| *place);
        self.placed.into_iter().map(|(_, item)| item).collect()
    }

    /// Payments as they were started; how they ended is in their events.
    pub(super) fn of_payments(&mut self, payments: &[Payment]) {
        // No event tells of the start. It comes after what announced the order, and before what tells of the end.
        let after_order = self.events.values().map(|row| row.id).min().unwrap_or(0);
        for payment in payments {
            let item = TimelineItem {
                status: Some(PaymentStatus::Processing.as_str()),
                detail: Some(self.words(&payment.method)),
                ..bare(payment.create_time, TimelineKind::Payment, started(payment))
            };
            self.placed.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
    }

    /// What an event says happened, that it was committed, every attempt to publish it, every redrive, and how far it came.
    pub(super) fn of_event<'h>(&mut self, row: &OutboxRow, history: impl Iterator<Item = &'h HistoryEntry>) {
        let body = envelope_of(row).ok().and_then(|envelope| EventBody::of(&envelope).ok());
        if let Some(change) = body.and_then(|body| change(row.create_time, body, self.shares)) {
            self.push(&row.event_id, change);
        }
        let what = format!("{} committed to the outbox", row.event_type);
        self.push(&row.event_id, bare(row.create_time, TimelineKind::Event, what));
        let mut is_told = false;
        for entry in history {
            let (status, what) = match entry.kind {
                HistoryKind::Retry => (OutboxStatus::Retry, NOT_CONFIRMED),
                HistoryKind::Failed => (OutboxStatus::Failed, GIVEN_UP),
                HistoryKind::Sent => (OutboxStatus::Sent, CONFIRMED),
                HistoryKind::Redriven => (OutboxStatus::Retry, REDRIVEN),
                HistoryKind::Duplicate => continue,
            };
            is_told = (status, entry.attempts) == (row.status, row.retry_count);
            let item = TimelineItem {
                status: Some(status.as_str()),
                attempts: Some(entry.attempts),
                detail: self.for_operators(entry.detail.clone()),
                ..bare(entry.at, TimelineKind::Published, what)
            };
            self.push(&row.event_id, item);
        }
        let (at, attempts, what) = match row.status {
            OutboxStatus::New => return,
            // The history has it. Of a row that a person wrote, it has nothing.
            OutboxStatus::Retry | OutboxStatus::Failed if is_told => return,
            OutboxStatus::Sent => {
                (row.sent_time.unwrap_or(row.update_time), row.retry_count.saturating_add(1), CONFIRMED)
            }
            OutboxStatus::Retry if row.retry_count == 0 => (row.update_time, 0, REDRIVEN),
            OutboxStatus::Retry => (row.update_time, row.retry_count, NOT_CONFIRMED),
            OutboxStatus::Failed => (row.update_time, row.retry_count, GIVEN_UP),
        };
        let detail = match row.status {
            OutboxStatus::New | OutboxStatus::Sent => None,
            OutboxStatus::Retry | OutboxStatus::Failed => self.for_operators(row.last_error.clone()),
        };
        let (status, attempts) = (Some(row.status.as_str()), Some(attempts));
        let published = bare(at, TimelineKind::Published, what);
        self.push(&row.event_id, TimelineItem { status, attempts, detail, ..published });
    }

    pub(super) fn of_consumption(&mut self, consumed: Consumed) {
        let (record, consumer) = (consumed.record, consumed.consumer);
        let what = match record.status {
            ConsumeStatus::Processing => format!("{consumer} is applying it"),
            ConsumeStatus::Waiting => format!("waits at {consumer} for an earlier event"),
            ConsumeStatus::Success => format!("applied by {consumer}"),
            ConsumeStatus::Failed => format!("failed at {consumer}; it tries again"),
            ConsumeStatus::Dead => format!("given up by {consumer}"),
        };
        let detail = match record.status {
            ConsumeStatus::Success if !self.shares.assets && is_of_assets(&consumer) => None,
            ConsumeStatus::Success => consumed.consume_result,
            ConsumeStatus::Processing
            | ConsumeStatus::Waiting
            | ConsumeStatus::Failed
            | ConsumeStatus::Dead => self.for_operators(record.error_message),
        };
        let item = TimelineItem {
            consumer: Some(consumer),
            status: Some(record.status.as_str()),
            attempts: Some(record.attempts),
            detail,
            ..bare(record.consume_time, TimelineKind::Consumed, what)
        };
        self.push(&consumed.event_id, item);
    }

    /// A delivery that a consumer ignored.
    pub(super) fn of_duplicate(&mut self, entry: &HistoryEntry) {
        let (HistoryKind::Duplicate, Some(consumer)) = (entry.kind, &entry.consumer) else { return };
        let item = TimelineItem {
            consumer: Some(consumer.clone()),
            status: Some(ConsumeStatus::Success.as_str()),
            ..bare(entry.at, TimelineKind::Consumed, format!("duplicate ignored by {consumer}"))
        };
        self.push(&entry.event_id, item);
    }

    /// When it was parked, and what a person decided since.
    pub(super) fn of_letter(&mut self, letter: DeadLetter) {
        let Ok(event) = letter.key.parse::<EventId>() else { return };
        let consumer = self.consumers.get(letter.queue.as_str()).map(|name| (*name).to_owned());
        let parked = TimelineItem {
            consumer: consumer.clone(),
            status: Some(DeadLetterStatus::Open.as_str()),
            detail: self.for_operators(Some(letter.reason)),
            ..bare(letter.died_at, TimelineKind::DeadLetter, "parked for a person")
        };
        self.push(&event, parked);
        let what = match letter.status {
            // Whatever was decided before it died again says nothing of now.
            DeadLetterStatus::Open => return,
            DeadLetterStatus::Replaying => "on its way back to its consumer",
            DeadLetterStatus::Replayed => "sent back to its consumer",
            DeadLetterStatus::Discarded => "given up by a person",
        };
        let decided = TimelineItem {
            consumer,
            status: Some(letter.status.as_str()),
            detail: self.for_operators(letter.note),
            ..bare(letter.decided_at.unwrap_or(letter.died_at), TimelineKind::DeadLetter, what)
        };
        self.push(&event, decided);
    }

    pub(super) fn of_listings(&mut self, changes: Vec<ListingChange>) {
        for change in changes {
            let what = match change.kind {
                ListingChangeKind::Occupied => {
                    format!("product {} taken off the seller's listing", change.product)
                }
                ListingChangeKind::Released => {
                    format!("product {} back on the seller's listing", change.product)
                }
            };
            self.push(&change.event_id, bare(change.at, TimelineKind::Effect, what));
        }
    }

    pub(super) fn of_shipments(&mut self, tasks: Vec<ShipmentTask>) {
        for task in tasks {
            let item = bare(task.at, TimelineKind::Effect, "shipment task opened for the seller");
            self.push(&task.event_id, item);
        }
    }

    pub(super) fn of_notifications(&mut self, notifications: Vec<Notification>) {
        for told in notifications {
            let side = match told.side {
                OrderSide::Buyer => "buyer",
                OrderSide::Seller => "seller",
            };
            let what = format!("{side} notified: {} -> {}", told.old_status, told.new_status);
            self.push(&told.event_id, bare(told.at, TimelineKind::Effect, what));
        }
    }

    pub(super) fn of_credit(&mut self, changes: Vec<CreditChange>) {
        for change in changes {
            let what = format!("counted for the buyer's credit as {}", change.step);
            self.push(&change.event_id, bare(change.at, TimelineKind::Effect, what));
        }
    }

    /// Every movement of an asset, with its key and what the buyer has since.
    pub(super) fn of_operations(&mut self, operations: Vec<AssetOperation>) {
        for operation in operations {
            let (asset, kind) = (operation.asset, operation.kind);
            let amount = asset.show(operation.amount);
            let item = TimelineItem {
                consumer: match asset {
                    Asset::Coupon | Asset::Wallet | Asset::Points => Some(asset.as_str().to_owned()),
                    Asset::Cash => None,
                },
                status: Some(kind.as_str()),
                idempotency_key: Some(operation.key.to_string()),
                balance_after: operation.balance_after.map(|balance| asset.show(balance)),
                trace_id: operation.trace_id,
                ..bare(operation.at, TimelineKind::Effect, format!("{asset}: {} of {amount}", moved(kind)))
            };
            let item = TimelineItem { amount: Some(amount), ..item };
            match operation.event_id {
                Some(event) => self.push(&event, item),
                None => self.placed.push(((item.at, i64::MAX, item.kind), item)),
            }
        }
    }

    /// Refunds as they were asked for; how they ended is in their events.
    pub(super) fn of_refunds(&mut self, refunds: &[Refund]) {
        let after_order = self.events.values().map(|row| row.id).min().unwrap_or(0);
        for refund in refunds {
            let what = format!("refund of {} {} asked for", refund.amount, refund.currency.as_str());
            let item = TimelineItem {
                status: Some(RefundStatus::Processing.as_str()),
                detail: Some(format!("{}: {}", refund.cause, self.reason(refund))),
                ..bare(refund.create_time, TimelineKind::Payment, what)
            };
            self.placed.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
    }

    fn push(&mut self, event: &EventId, mut item: TimelineItem) {
        let row = self.events.get(event);
        item.event_id = Some(event.clone());
        item.event_type = row.map(|row| row.event_type.clone());
        item.trace_id = row.map(|row| row.trace_id().to_owned()).or(item.trace_id);
        self.placed.push(((item.at, row.map_or(i64::MAX, |row| row.id), item.kind), item));
    }

    /// What a party wrote.
    fn words(&self, words: &str) -> String {
        if self.shares.words { words.to_owned() } else { MASK.to_owned() }
    }

    /// What operators wrote themselves is theirs to read.
    fn reason(&self, refund: &Refund) -> String {
        match refund.cause {
            RefundCause::Buyer => self.words(&refund.reason),
            RefundCause::Operator | RefundCause::LatePayment => refund.reason.clone(),
        }
    }

    fn for_operators(&self, text: Option<String>) -> Option<String> {
        match self.sight {
            Sight::Operator => text,
            Sight::Party => None,
        }
    }
}

/// What an event says happened to the order or a payment of it.
fn change(at: DateTime<Utc>, body: EventBody, shares: Shares) -> Option<TimelineItem> {
    let state = |status: OrderStatus, what: &str| TimelineItem {
        status: Some(status.as_str()),
        ..bare(at, TimelineKind::State, what)
    };
    let settled = |body: PaymentSettled, status: PaymentStatus, how: &str| TimelineItem {
        status: Some(status.as_str()),
        detail: Some(if shares.words { body.payment_method } else { MASK.to_owned() }),
        ..bare(
            at,
            TimelineKind::Payment,
            format!("payment of {} {} {how}", body.amount, body.currency.as_str()),
        )
    };
    let refunded = |body: RefundSettled, status: RefundStatus, how: &str| TimelineItem {
        status: Some(status.as_str()),
        ..bare(
            at,
            TimelineKind::Payment,
            format!("refund of {} {} {how}", body.amount, body.currency.as_str()),
        )
    };
    match body {
        EventBody::OrderCreated(_) => Some(state(OrderStatus::Pending, "order placed")),
        EventBody::OrderPaid(_) => Some(state(OrderStatus::Paid, "order paid")),
        EventBody::OrderStatusChanged(body) => {
            Some(state(body.new_status, &format!("order {}", body.new_status)))
        }
        EventBody::OrderCancelled(body) => {
            let detail = Some(body.reason.as_str().to_owned());
            Some(TimelineItem { detail, ..state(OrderStatus::Cancelled, "order cancelled") })
        }
        EventBody::OrderRefunded(_) => Some(state(OrderStatus::Refunded, "order refunded")),
        EventBody::PaymentSucceeded(body) => Some(settled(body, PaymentStatus::Success, "succeeded")),
        EventBody::PaymentFailed(body) => Some(settled(body, PaymentStatus::Failed, "failed")),
        EventBody::RefundSucceeded(body) => Some(refunded(body, RefundStatus::Success, "succeeded")),
        EventBody::RefundFailed(body) => Some(refunded(body, RefundStatus::Failed, "failed")),
        EventBody::OrderTimeout(_) | EventBody::InvoiceGenerated(_) => None,
    }
}

/// What an operation does, as a noun.
const fn moved(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Deposit => "deposit",
        OperationKind::Grant => "grant",
        OperationKind::Issue => "issue",
        OperationKind::Freeze => "hold",
        OperationKind::Commit => "commit",
        OperationKind::Release => "release",
        OperationKind::Revert => "give-back",
        OperationKind::Earn => "earning",
        OperationKind::Unearn => "take-back",
        OperationKind::Capture => "capture",
        OperationKind::Payout => "payout",
    }
}

fn started(payment: &Payment) -> String {
    format!("payment of {} {} started", payment.amount, payment.currency.as_str())
}

/// Whether a consumer's words tell of what the buyer has.
fn is_of_assets(consumer: &str) -> bool {
    Asset::HELD.iter().any(|asset| asset.as_str() == consumer)
}

/// An item of which nothing more is known yet.
fn bare(at: DateTime<Utc>, kind: TimelineKind, what: impl Into<String>) -> TimelineItem {
    TimelineItem {
        at,
        kind,
        event_id: None,
        event_type: None,
        consumer: None,
        status: None,
        attempts: None,
        idempotency_key: None,
        amount: None,
        balance_after: None,
        what: what.into(),
        detail: None,
        trace_id: None,
    }
}
