//! Timelines of orders and invoices.

use handover_events::EventId;
use handover_http::views;
use handover_http::views::Time;
use marketplace::use_cases::operations::{InvoiceTimeline, Timeline, TimelineItem};
use marketplace_domain::{InvoiceId, OrderId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::openapi::kinds;

views! {
    /// Everything that happened to an order, in chronological order.
    pub TimelineView as Timeline {
        order_id: OrderId,
        items: Vec<ItemView>,
    }

    /// Everything that happened to an invoice, in chronological order.
    pub InvoiceTimelineView as InvoiceTimeline {
        invoice_id: InvoiceId,
        items: Vec<ItemView>,
    }
}

/// A timeline entry; fields that do not apply are omitted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TimelineItem)]
struct ItemView {
    at: Time,
    #[schema(value_type = kinds::TimelineName)]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = kinds::EventId)]
    event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<String>,
    /// Operator who redrove or replayed the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    balance_after: Option<String>,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    /// `true`: the event is in the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<bool>,
}

impl From<Timeline> for TimelineView {
    fn from(timeline: Timeline) -> TimelineView {
        let items = timeline.items.into_iter().map(ItemView::from).collect();
        TimelineView { order_id: timeline.order, items }
    }
}

impl From<InvoiceTimeline> for InvoiceTimelineView {
    fn from(timeline: InvoiceTimeline) -> InvoiceTimelineView {
        let items = timeline.items.into_iter().map(ItemView::from).collect();
        InvoiceTimelineView { invoice_id: timeline.invoice, items }
    }
}

impl From<TimelineItem> for ItemView {
    fn from(item: TimelineItem) -> ItemView {
        ItemView {
            at: Time(item.at),
            kind: item.kind.as_str(),
            event_id: item.event_id,
            event_type: item.event_type,
            consumer: item.consumer,
            actor: item.actor,
            status: item.status,
            attempts: item.attempts,
            idempotency_key: item.idempotency_key,
            amount: item.amount,
            balance_after: item.balance_after,
            what: item.what,
            detail: item.detail,
            trace_id: item.trace_id,
            archived: item.is_archived.then_some(true),
        }
    }
}
