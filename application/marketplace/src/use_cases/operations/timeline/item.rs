//! The items of a timeline, and what its reader may see of them.

use chrono::{DateTime, Utc};
use handover_events::EventId;

use crate::consumer::Audience;

/// Kind of an item. Items of one event with the same time are sorted by kind, in the sequence of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimelineKind {
    /// The order changed.
    State,
    /// A payment or a refund was started or settled.
    Payment,
    /// The gateway reported the result of a payment or refund. Only for operators.
    GatewayReport,
    /// An event was committed with the change.
    Event,
    /// The result of an attempt to publish an event, or a redrive.
    Published,
    /// A consumer, job or use case wrote an effect. A consumer writes it in the same transaction as its consume-log
    /// record.
    Effect,
    /// A consumer recorded an event in its consume log. Only for readers that see its effects.
    Consumed,
    /// A delivery of the event to a webhook endpoint, or one of several attempts at it. Only for operators.
    Webhook,
    /// A dead letter was created, replayed or discarded.
    DeadLetter,
}

impl TimelineKind {
    pub const ALL: &'static [TimelineKind] = &[
        TimelineKind::State,
        TimelineKind::Payment,
        TimelineKind::GatewayReport,
        TimelineKind::Event,
        TimelineKind::Published,
        TimelineKind::Effect,
        TimelineKind::Consumed,
        TimelineKind::Webhook,
        TimelineKind::DeadLetter,
    ];

    /// Name of the kind in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            TimelineKind::State => "state",
            TimelineKind::Payment => "payment",
            TimelineKind::GatewayReport => "gatewayReport",
            TimelineKind::Event => "event",
            TimelineKind::Published => "published",
            TimelineKind::Effect => "effect",
            TimelineKind::Consumed => "consumed",
            TimelineKind::Webhook => "webhook",
            TimelineKind::DeadLetter => "deadLetter",
        }
    }
}

/// One item of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineItem {
    pub at: DateTime<Utc>,
    pub kind: TimelineKind,
    /// Event that the item belongs to.
    pub event_id: Option<EventId>,
    pub event_type: Option<String>,
    pub consumer: Option<String>,
    /// Operator who redrove or replayed the event. Only for operators.
    pub actor: Option<String>,
    /// New status of the order, payment, refund, report, outbox row, consume-log record or dead letter.
    pub status: Option<&'static str>,
    /// Number of attempts so far to publish or to apply the event.
    pub attempts: Option<u32>,
    /// Key of the asset operation.
    pub idempotency_key: Option<String>,
    /// Amount of the asset operation, or the reported amount.
    pub amount: Option<String>,
    /// Available balance of the purse after the asset operation.
    pub balance_after: Option<String>,
    /// Description.
    pub what: String,
    /// Details; for an event, the consumers that have no work with it. Errors and the reasons of redrives and dead-letter
    /// decisions are only for operators.
    pub detail: Option<String>,
    pub trace_id: Option<String>,
    /// Whether the event that the item belongs to is in the archive.
    pub is_archived: bool,
}

impl Visibility {
    /// Whether the reader sees the effects and the processing of a consumer with this audience.
    pub(super) fn includes(self, audience: Audience) -> bool {
        match audience {
            Audience::Parties => true,
            Audience::Buyer => self.assets,
            Audience::Operators => self.operations,
        }
    }
}

/// Parts of the timeline that the reader may see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visibility {
    /// Webhooks, errors, and the reasons of redrives and dead-letter decisions.
    pub(super) operations: bool,
    /// Assets of the buyer.
    pub(super) assets: bool,
    /// Text from buyer and seller: payment method and reason of a refund.
    pub(super) free_text: bool,
}
