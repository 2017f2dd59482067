//! Findings of a reconciliation.

use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{
    FindingKind, GatewayReport, Invoice, InvoiceId, ObservedFinding, Order, OrderId, PayableId, ProductId,
    RecordedFinding,
};

use super::coverage::OrderKey;
use crate::consistency::{ExpectedEvent, InvoiceMismatch, MoneyMismatch, ProductMismatch};
use crate::ports::{EffectKind, EffectOfFact, LedgerInconsistency};
use handover_outbox::ports::{DeadLetter, Numbered, OutboxRow, StoreError, UnreadableRow};

/// Maximum number of characters of a recorded description.
const MAX_DETAIL_CHARS: usize = 2_000;

impl From<MoneyMismatch> for FindingKind {
    fn from(mismatch: MoneyMismatch) -> FindingKind {
        match mismatch {
            MoneyMismatch::PaidWithoutPayment => FindingKind::PaidWithoutPayment,
            MoneyMismatch::PaymentFailed(_) => FindingKind::PaymentFailed,
            MoneyMismatch::PaymentNotApplied(_) => FindingKind::PaymentNotApplied,
            MoneyMismatch::NotRefunded(..) => FindingKind::NotRefunded,
            MoneyMismatch::RefundNotApplied(_) => FindingKind::RefundNotApplied,
        }
    }
}

/// How a finding was repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The missing event was appended to the outbox.
    Announced,
    /// The event was redriven.
    Redriven,
    /// The event was scheduled to be applied again.
    Reapplied,
    /// A missing row was written: a consume-log record, a hold or a ledger operation. Also returned if an earlier
    /// attempt of unknown outcome had made the repair.
    RecordWritten,
    /// The product was marked `sold`.
    ProductSold,
    /// The order was paid by its successful payment.
    OrderPaid,
    /// The order was refunded by its successful refund.
    OrderRefunded,
    /// The order no longer waits for its failed refund.
    RefundAbandoned,
    /// A refund was started.
    RefundStarted,
}

impl Repair {
    pub const ALL: &'static [Repair] = &[
        Repair::Announced,
        Repair::Redriven,
        Repair::Reapplied,
        Repair::RecordWritten,
        Repair::ProductSold,
        Repair::OrderPaid,
        Repair::OrderRefunded,
        Repair::RefundAbandoned,
        Repair::RefundStarted,
    ];

    /// Name of the repair in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Repair::Announced => "announced",
            Repair::Redriven => "sentAgain",
            Repair::Reapplied => "appliedAgain",
            Repair::RecordWritten => "recordWritten",
            Repair::ProductSold => "productSold",
            Repair::OrderPaid => "orderPaid",
            Repair::OrderRefunded => "orderRefunded",
            Repair::RefundAbandoned => "refundAbandoned",
            Repair::RefundStarted => "refundStarted",
        }
    }
}

/// A discrepancy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    pub tenant: TenantId,
    pub order: Option<OrderId>,
    pub event_id: Option<EventId>,
    pub event_type: Option<String>,
    pub consumer: Option<String>,
    /// Key of the ledger operation or business fact, or the contradicting row: `payment:7`, `refund:3`, `product:5`,
    /// `report:9`, `invoice:4`.
    pub key: Option<String>,
    /// Description for operators.
    pub what: String,
    /// How the finding was repaired; `None` if it was not or could not be repaired.
    pub repair: Option<Repair>,
    /// The contradiction of a finding about money.
    pub(super) mismatch: Option<MoneyMismatch>,
    /// How the finding is recorded.
    pub(super) record: Record,
}

/// What identifies a finding in the table of findings, in addition to its public fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Whether the compared row names no tenant, so that only operators of all tenants see the finding.
    pub(super) has_no_tenant: bool,
    /// Id of the product, gateway report, dead letter, outbox row or invoice.
    pub(super) row_id: Option<i64>,
    /// Distinguishes findings whose public fields are equal.
    pub(super) part: Option<String>,
}

impl Record {
    fn of_row(row_id: i64) -> Record {
        Record { row_id: Some(row_id), ..Record::default() }
    }
}

impl Finding {
    /// The finding as a run that began at `at` saw it, and may have repaired it by `now`.
    pub(super) fn observed(&self, at: DateTime<Utc>, now: DateTime<Utc>) -> ObservedFinding {
        ObservedFinding {
            tenant: (!self.record.has_no_tenant).then_some(self.tenant),
            kind: self.kind,
            subject: storable(&self.subject(), RecordedFinding::MAX_SUBJECT_CHARS),
            order: self.order,
            row_id: self.record.row_id,
            detail: storable(&self.detail(), MAX_DETAIL_CHARS),
            repaired_at: self.repair.map(|_| now),
            at,
        }
    }

    /// Whether its repair books, spends or refunds money.
    pub(super) fn moves_money(&self) -> bool {
        self.mismatch.is_some() || self.kind == FindingKind::NotBooked
    }

    /// Description of the finding and of its repair.
    fn detail(&self) -> String {
        match self.repair {
            Some(repair) => format!("{}; repaired: {}", self.what, repair.as_str()),
            None => self.what.clone(),
        }
    }

    /// Identifies the finding within its tenant and kind.
    pub(super) fn subject(&self) -> String {
        // The event id identifies the event, whatever type its row or dead letter has.
        let event_type = self.event_type.as_ref().filter(|_| self.event_id.is_none());
        let parts = [
            self.order.map(|order| format!("order:{order}")),
            self.event_id.as_ref().map(|event| format!("event:{event}")),
            event_type.map(|event_type| format!("type:{event_type}")),
            self.consumer.as_ref().map(|consumer| format!("consumer:{consumer}")),
            self.key.clone(),
            self.record.part.clone(),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn of_order(order: &Order, kind: FindingKind, what: impl Into<String>) -> Finding {
        Finding {
            kind,
            tenant: order.tenant,
            order: Some(order.id),
            event_id: None,
            event_type: None,
            consumer: None,
            key: None,
            what: what.into(),
            repair: None,
            mismatch: None,
            record: Record::default(),
        }
    }

    /// Finding about an event of the order, of one of its payments or of one of its refunds.
    pub(super) fn of_event(
        order: &Order,
        row: &OutboxRow,
        kind: FindingKind,
        what: impl Into<String>,
    ) -> Finding {
        Finding {
            event_id: Some(row.event_id.clone()),
            event_type: Some(row.event_type.clone()),
            ..Finding::of_order(order, kind, what)
        }
    }

    pub(super) fn of_product(tenant: TenantId, product: ProductId, mismatch: &ProductMismatch) -> Finding {
        Finding {
            kind: match mismatch {
                ProductMismatch::NotSold { .. } => FindingKind::ProductNotSold,
                ProductMismatch::SoldTwice { .. } => FindingKind::SoldTwice,
                ProductMismatch::SoldWithoutOrder => FindingKind::SoldWithoutOrder,
            },
            tenant,
            order: mismatch.order(),
            event_id: None,
            event_type: None,
            consumer: None,
            key: Some(format!("product:{product}")),
            what: mismatch.describe(product),
            repair: None,
            mismatch: None,
            record: Record::of_row(product.get()),
        }
    }

    pub(super) fn of_report(report: Numbered<GatewayReport>) -> Finding {
        let Numbered { id, effect: report } = report;
        Finding {
            kind: FindingKind::GatewayReport,
            // A report of an unknown payment or refund has no tenant, but a finding must have one.
            tenant: report.tenant.unwrap_or(TenantId::DEFAULT),
            order: report.of.and_then(PayableId::order),
            event_id: None,
            event_type: None,
            consumer: None,
            key: Some(format!("report:{id}")),
            what: format!("report {id} of the gateway about a {} is open: {}", report.kind, report.outcome),
            repair: None,
            mismatch: None,
            record: Record { has_no_tenant: report.tenant.is_none(), ..Record::of_row(id) },
        }
    }

    /// The finding with the fields that name a missing event.
    pub(super) fn with_missing_event(self, event: &ExpectedEvent) -> Finding {
        let event_type = event.event_type();
        // Several payments of an order can lack the same type of event.
        let part =
            format!("{}:{}:{}", event_type.aggregate(), event.body.aggregate_id(), event.aggregate_seq);
        Finding {
            event_type: Some(event_type.as_str().to_owned()),
            record: Record { part: Some(part), ..self.record },
            ..self
        }
    }

    /// The order or invoice whose events are missing.
    pub(super) fn lacks_events_of(&self) -> Option<PayableId> {
        if self.kind != FindingKind::MissingEvent {
            return None;
        }
        let invoice = self.record.row_id.and_then(|id| InvoiceId::try_from(id).ok());
        self.order.map(PayableId::Order).or(invoice.map(PayableId::Invoice))
    }

    pub(super) fn of_invoice(invoice: &Invoice, mismatch: &InvoiceMismatch) -> Finding {
        let invoice_key = format!("invoice:{}", invoice.id);
        let (kind, key, part) = match mismatch {
            InvoiceMismatch::MissingEvent(_) => (FindingKind::MissingEvent, invoice_key, None),
            InvoiceMismatch::NotBooked(key) => (FindingKind::NotBooked, key.to_string(), None),
            InvoiceMismatch::MoneyDiffers { .. } => {
                (FindingKind::InvoiceDiffers, invoice_key, Some("payments".to_owned()))
            }
            InvoiceMismatch::NotInvoiced(_)
            | InvoiceMismatch::NotCompleted(_)
            | InvoiceMismatch::LineDiffers(_)
            | InvoiceMismatch::TotalDiffers { .. } => (FindingKind::InvoiceDiffers, invoice_key, None),
        };
        let finding = Finding {
            kind,
            tenant: invoice.tenant,
            order: mismatch.order(),
            event_id: None,
            event_type: None,
            consumer: None,
            key: Some(key),
            what: mismatch.describe(invoice),
            repair: None,
            mismatch: None,
            record: Record { part, ..Record::of_row(invoice.id.get()) },
        };
        match mismatch {
            InvoiceMismatch::MissingEvent(event) => finding.with_missing_event(event),
            InvoiceMismatch::NotInvoiced(_)
            | InvoiceMismatch::NotCompleted(_)
            | InvoiceMismatch::LineDiffers(_)
            | InvoiceMismatch::TotalDiffers { .. }
            | InvoiceMismatch::MoneyDiffers { .. }
            | InvoiceMismatch::NotBooked(_) => finding,
        }
    }

    pub(super) fn without_order(kind: EffectKind, effect: EffectOfFact) -> Finding {
        Finding {
            kind: FindingKind::EffectWithoutFact,
            tenant: effect.tenant,
            order: Some(effect.order),
            event_id: Some(effect.event_id),
            event_type: None,
            consumer: None,
            what: format!(
                "table {} contains an effect of kind {}, but the order does not exist",
                kind.table(),
                effect.fact
            ),
            key: Some(effect.fact),
            repair: None,
            mismatch: None,
            record: Record { part: Some(kind.table().to_owned()), ..Record::default() },
        }
    }

    /// Finding for a dead letter whose event is not in the outbox, because the database was restored or the message is
    /// foreign.
    pub(super) fn of_dead_letter(dead_letter: Numbered<DeadLetter>, event_id: EventId) -> Finding {
        let Numbered { id, effect: dead_letter } = dead_letter;
        Finding {
            kind: FindingKind::UnknownEvent,
            tenant: dead_letter.tenant,
            order: None,
            what: format!(
                "dead letter {} of {}: there is no outbox row of event {event_id}",
                dead_letter.key, dead_letter.queue
            ),
            event_id: Some(event_id),
            event_type: dead_letter.event_type,
            consumer: None,
            key: None,
            repair: None,
            mismatch: None,
            record: Record { part: Some(format!("deadLetter:{id}")), ..Record::of_row(id) },
        }
    }

    pub(super) fn of_unreadable(row: UnreadableRow) -> Finding {
        Finding {
            kind: FindingKind::UnreadableRow,
            // Without a readable `tenant_id`, the finding has the default tenant, because a finding must have a tenant.
            tenant: row.tenant.unwrap_or(TenantId::DEFAULT),
            order: None,
            what: format!("outbox_events.{} of id {} cannot be read: {}", row.column, row.id, row.why),
            event_id: row.event_id,
            event_type: None,
            consumer: None,
            key: None,
            repair: None,
            mismatch: None,
            record: Record {
                has_no_tenant: row.tenant.is_none(),
                part: Some(format!("row:{}", row.id)),
                ..Record::of_row(row.id)
            },
        }
    }

    /// Finding for an order that cannot be compared, because a row about it cannot be read.
    pub(super) fn of_unreadable_order((tenant, order): OrderKey, error: &StoreError) -> Finding {
        Finding {
            kind: FindingKind::UnreadableRow,
            tenant,
            order: Some(order),
            event_id: None,
            event_type: None,
            consumer: None,
            key: None,
            what: format!("order {order} cannot be compared: {error}"),
            repair: None,
            mismatch: None,
            record: Record::default(),
        }
    }

    pub(super) fn of_ledger(discrepancy: &LedgerInconsistency) -> Finding {
        let (kind, tenant, key, part, what) = match discrepancy {
            LedgerInconsistency::Unbalanced { tenant, key, sum } => {
                let what =
                    format!("the entries of {key} sum to {sum} instead of 0, or the operation is missing");
                (FindingKind::Unbalanced, *tenant, Some(key.to_string()), None, what)
            }
            LedgerInconsistency::Drifted { tenant, user, account, balance, entries } => {
                let asset = account.asset();
                let balance = asset.show(*balance);
                let entries = asset.show(*entries);
                let what =
                    format!("user {user} has {balance} in {account}, but the entries sum to {entries}");
                (FindingKind::Drifted, *tenant, None, Some(format!("user:{user} {account}")), what)
            }
        };
        Finding {
            kind,
            tenant,
            order: None,
            event_id: None,
            event_type: None,
            consumer: None,
            key,
            what,
            repair: None,
            mismatch: None,
            record: Record { part, ..Record::default() },
        }
    }
}

/// The first `most` characters, without NUL, which PostgreSQL does not store.
fn storable(text: &str, most: usize) -> String {
    text.chars()
        .map(|each| if each == '\0' { char::REPLACEMENT_CHARACTER } else { each })
        .take(most)
        .collect()
}
