//! Converts rows into timeline items.

mod of_operators;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, HistoryKind, OutboxStatus};
use marketplace_domain::event::ChangeKind;
use marketplace_domain::{
    Asset, AssetOperation, EventBody, OperationKind, Payment, PaymentStatus, Refund, RefundCause,
    RefundStatus,
};

use super::archived::TimelineEvents;
use super::item::{TimelineItem, TimelineKind, Visibility};
use crate::consumer::{Consumer, EffectRow, RowDescription};
use crate::use_cases::operations::Operations;
use handover_outbox::MASK;
use handover_outbox::ports::{ArchivedEvent, Consumed, HistoryEntry, OutboxRow};
use handover_outbox::relay::envelope_of;

const CONFIRMED: &str = "confirmed by the broker";
const NOT_CONFIRMED: &str = "not confirmed; to be published again";
const FAILED: &str = "publishing failed: not confirmed by the broker";
const ERASED: &str = "texts masked, because a user was erased";
const REDRIVEN: &str = "redriven; to be published again";

/// The items of a timeline, each with its sort key.
pub(super) struct Items<'a> {
    visibility: Visibility,
    /// Consumer of each queue.
    consumers: BTreeMap<String, String>,
    /// Consumers of whose processing the reader sees nothing: that a consumer of the buyer's assets has work with an event
    /// shows which assets the buyer uses.
    hidden: BTreeSet<String>,
    events: BTreeMap<&'a EventId, &'a OutboxRow>,
    archived: &'a BTreeSet<EventId>,
    items: Vec<(SortKey, TimelineItem)>,
}

/// Sort key of an item: time, id of the outbox row, kind.
type SortKey = (DateTime<Utc>, i64, TimelineKind);

impl<'a> Items<'a> {
    pub(super) fn new(operations: &Operations, visibility: Visibility, of: &'a TimelineEvents) -> Items<'a> {
        let queue_of = |consumer: &dyn Consumer| consumer.queue(operations.handlers.pending_timeout).name;
        let consumers =
            operations.consumers.iter().map(|it| (queue_of(it.as_ref()), it.name().to_owned())).collect();
        let hidden = operations.consumers.iter().filter(|it| !visibility.includes(it.audience()));
        let hidden = hidden.map(|it| it.name().to_owned()).collect();
        let events = of.rows.iter().map(|row| (&row.event_id, row)).collect();
        Items { visibility, consumers, hidden, events, archived: &of.archived, items: Vec::new() }
    }

    pub(super) fn in_order(mut self) -> Vec<TimelineItem> {
        self.items.sort_by_key(|(key, _)| *key);
        self.items.into_iter().map(|(_, item)| item).collect()
    }

    /// Adds an item for the start of each payment. The item for the result comes from the events of the payment.
    pub(super) fn of_payments(&mut self, payments: &[Payment]) {
        // The start has no event. Among items of the same time, it is sorted after ORDER_CREATED and before the event
        // of the result.
        let after_order = self.events.values().map(|row| row.id).min().unwrap_or(0);
        for payment in payments {
            let item = TimelineItem {
                status: Some(PaymentStatus::Processing.as_str()),
                detail: Some(self.free_text(payment.method.as_str())),
                ..new_item(payment.create_time, TimelineKind::Payment, started(payment))
            };
            self.items.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
    }

    /// Adds the items of an event: the change that the event announces, the commit of the event, its publish attempts
    /// and redrives, and its current status.
    pub(super) fn of_event<'h>(&mut self, row: &OutboxRow, history: impl Iterator<Item = &'h HistoryEntry>) {
        let body = envelope_of(row).ok().and_then(|envelope| EventBody::of(&envelope).ok());
        if let Some(change) = body.and_then(|body| body.change()) {
            let kind = match change.kind {
                ChangeKind::Order => TimelineKind::State,
                ChangeKind::Payment => TimelineKind::Payment,
            };
            let detail = change.detail;
            let detail = detail.map(|text| if change.is_free_text { self.free_text(&text) } else { text });
            let status = Some(change.status);
            let item = TimelineItem { status, detail, ..new_item(row.create_time, kind, change.what) };
            self.push(&row.event_id, item);
        }
        let what = format!("{} committed to the outbox", row.event_type);
        let detail = self.idle_consumers(row);
        let committed = new_item(row.create_time, TimelineKind::Event, what);
        self.push(&row.event_id, TimelineItem { detail, ..committed });
        if let Some(at) = row.erased_time {
            let detail = self.for_operators(row.erased_reason.clone());
            let erased = TimelineItem { detail, ..new_item(at, TimelineKind::Event, ERASED) };
            self.push(&row.event_id, erased);
        }
        let mut is_in_history = false;
        // An entry with a consumer is about a delivery.
        for entry in history.filter(|entry| entry.consumer.is_none()) {
            let (status, what) = match entry.kind {
                HistoryKind::Retry => (OutboxStatus::Retry, NOT_CONFIRMED),
                HistoryKind::Failed => (OutboxStatus::Failed, FAILED),
                HistoryKind::Sent => (OutboxStatus::Sent, CONFIRMED),
                HistoryKind::Redriven => (OutboxStatus::Retry, REDRIVEN),
                HistoryKind::Duplicate => continue,
            };
            is_in_history = (status, entry.attempts) == (row.status, row.retry_count);
            let actor = match entry.kind {
                HistoryKind::Redriven => entry.detail.as_deref().map(actor_of),
                HistoryKind::Retry | HistoryKind::Failed | HistoryKind::Sent | HistoryKind::Duplicate => None,
            };
            let item = TimelineItem {
                actor: self.for_operators(actor),
                status: Some(status.as_str()),
                attempts: Some(entry.attempts),
                detail: self.for_operators(entry.detail.clone()),
                ..new_item(entry.at, TimelineKind::Published, what)
            };
            self.push(&row.event_id, item);
        }
        let (at, attempts, what) = match row.status {
            OutboxStatus::New => return,
            // The item of this status was built from the history of the row. A row that was inserted with SQL has no
            // history; its item is built from the row.
            OutboxStatus::Retry | OutboxStatus::Failed if is_in_history => return,
            OutboxStatus::Sent => {
                (row.sent_time.unwrap_or(row.update_time), row.retry_count.saturating_add(1), CONFIRMED)
            }
            OutboxStatus::Retry if row.retry_count == 0 => (row.update_time, 0, REDRIVEN),
            OutboxStatus::Retry => (row.update_time, row.retry_count, NOT_CONFIRMED),
            OutboxStatus::Failed => (row.update_time, row.retry_count, FAILED),
        };
        let detail = match row.status {
            OutboxStatus::New | OutboxStatus::Sent => None,
            OutboxStatus::Retry | OutboxStatus::Failed => self.for_operators(row.last_error.clone()),
        };
        let status = Some(row.status.as_str());
        let attempts = Some(attempts);
        let published = new_item(at, TimelineKind::Published, what);
        self.push(&row.event_id, TimelineItem { status, attempts, detail, ..published });
    }

    /// Adds an item for each archived event whose content cannot be read.
    pub(super) fn of_unreadable(&mut self, events: &[(ArchivedEvent, String)]) {
        for (event, why) in events {
            let what = format!("{} is in the archive and cannot be read", event.event_type);
            let item = TimelineItem {
                event_id: Some(event.event_id.clone()),
                event_type: Some(event.event_type.clone()),
                is_archived: true,
                detail: self.for_operators(Some(why.clone())),
                ..new_item(event.create_time, TimelineKind::Event, what)
            };
            self.items.push(((item.at, event.id, item.kind), item));
        }
    }

    /// Adds the state of an event at a consumer.
    pub(super) fn of_consumption(&mut self, consumed: Consumed) {
        let record = consumed.record;
        let consumer = consumed.consumer;
        if self.hidden.contains(&consumer) {
            return;
        }
        let what = match record.status {
            ConsumeStatus::Processing => format!("being applied by {consumer}"),
            ConsumeStatus::Waiting => format!("waiting at {consumer} for an earlier event"),
            ConsumeStatus::Success => format!("applied by {consumer}"),
            ConsumeStatus::Failed => format!("failed at {consumer}; will be retried"),
            ConsumeStatus::Dead => format!("failed permanently at {consumer}"),
        };
        let detail = match record.status {
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
            ..new_item(record.consume_time, TimelineKind::Consumed, what)
        };
        self.push(&consumed.event_id, item);
    }

    /// Adds a duplicate delivery that a consumer ignored.
    pub(super) fn of_duplicate(&mut self, entry: &HistoryEntry) {
        let (HistoryKind::Duplicate, Some(consumer)) = (entry.kind, &entry.consumer) else { return };
        if self.hidden.contains(consumer) {
            return;
        }
        let item = TimelineItem {
            consumer: Some(consumer.clone()),
            ..new_item(entry.at, TimelineKind::Consumed, format!("duplicate ignored by {consumer}"))
        };
        self.push(&entry.event_id, item);
    }

    /// Adds the effects of a consumer.
    pub(super) fn of_effects(&mut self, rows: Vec<EffectRow>) {
        for row in rows {
            match (row.description, row.event_id) {
                (RowDescription::Operation(operation), _) => self.of_operation(operation),
                (RowDescription::Text(text), Some(event)) => {
                    self.push(&event, new_item(row.at, TimelineKind::Effect, text));
                }
                (RowDescription::Text(text), None) => {
                    let item = new_item(row.at, TimelineKind::Effect, text);
                    self.items.push(((item.at, i64::MAX, item.kind), item));
                }
            }
        }
    }

    /// Adds an asset operation with its key and the available balance after it.
    fn of_operation(&mut self, operation: AssetOperation) {
        let asset = operation.asset;
        let kind = operation.kind;
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
            ..new_item(
                operation.at,
                TimelineKind::Effect,
                format!("{asset}: {} of {amount}", operation_noun(kind)),
            )
        };
        let item = TimelineItem { amount: Some(amount), ..item };
        match operation.event_id {
            Some(event) => self.push(&event, item),
            None => self.items.push(((item.at, i64::MAX, item.kind), item)),
        }
    }

    /// Adds an item for the request of each refund. The item for the result comes from the events of the refund.
    pub(super) fn of_refunds(&mut self, refunds: &[Refund]) {
        let after_order = self.events.values().map(|row| row.id).min().unwrap_or(0);
        for refund in refunds {
            let what = format!("refund of {} {} requested", refund.amount, refund.currency.as_str());
            let item = TimelineItem {
                status: Some(RefundStatus::Processing.as_str()),
                detail: Some(format!("{}: {}", refund.cause, self.reason(refund))),
                ..new_item(refund.create_time, TimelineKind::Payment, what)
            };
            self.items.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
    }

    fn push(&mut self, event: &EventId, mut item: TimelineItem) {
        let row = self.events.get(event);
        item.event_id = Some(event.clone());
        item.is_archived = self.archived.contains(event);
        item.event_type = row.map(|row| row.event_type.clone());
        item.trace_id = row.map(|row| row.trace_id().to_owned()).or(item.trace_id);
        self.items.push(((item.at, row.map_or(i64::MAX, |row| row.id), item.kind), item));
    }

    /// The consumers that have no work with the event, without the hidden ones.
    fn idle_consumers(&self, row: &OutboxRow) -> Option<String> {
        let names = row.idle_consumers.names().filter(|name| !self.hidden.contains(*name));
        let names: Vec<&str> = names.collect();
        (!names.is_empty()).then(|| format!("no work for {}", names.join(", ")))
    }

    /// Returns text of buyer or seller, masked if the reader may not see it.
    fn free_text(&self, text: &str) -> String {
        if self.visibility.free_text { text.to_owned() } else { MASK.to_owned() }
    }

    /// Reason of a refund. What a party wrote is masked for operators without the right to see it, and what an operator wrote for
    /// the parties.
    fn reason(&self, refund: &Refund) -> String {
        match refund.cause {
            RefundCause::Buyer | RefundCause::Seller => self.free_text(&refund.reason),
            RefundCause::Operator if !self.visibility.operations => MASK.to_owned(),
            RefundCause::Operator
            | RefundCause::LatePayment
            | RefundCause::SecondCapture
            | RefundCause::WrongAmount => refund.reason.clone(),
        }
    }

    fn for_operators(&self, text: Option<String>) -> Option<String> {
        if self.visibility.operations { text } else { None }
    }
}

const fn operation_noun(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Deposit => "deposit",
        OperationKind::Grant => "grant",
        OperationKind::Issue => "issue",
        OperationKind::Freeze => "hold",
        OperationKind::Commit => "commit",
        OperationKind::Release => "release",
        OperationKind::Revert => "revert",
        OperationKind::Earn => "earning",
        OperationKind::Unearn => "deduction",
        OperationKind::Capture => "capture",
        OperationKind::Payout => "payout",
    }
}

fn started(payment: &Payment) -> String {
    format!("payment of {} {} started", payment.amount, payment.currency.as_str())
}

/// The operator in the text of a redrive or replay, which may end with the reason.
fn actor_of(text: &str) -> String {
    text.split_once(": ").map_or(text, |(actor, _)| actor).to_owned()
}

/// Creates an item without optional fields.
fn new_item(at: DateTime<Utc>, kind: TimelineKind, what: impl Into<String>) -> TimelineItem {
    TimelineItem {
        at,
        kind,
        event_id: None,
        event_type: None,
        consumer: None,
        actor: None,
        status: None,
        attempts: None,
        idempotency_key: None,
        amount: None,
        balance_after: None,
        what: what.into(),
        detail: None,
        trace_id: None,
        is_archived: false,
    }
}
