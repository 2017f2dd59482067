//! Findings of a reconciliation.

use handover_events::{EventId, TenantId};
use marketplace_domain::{GatewayReport, OrderId, ProductId};

use crate::consistency::{MoneyMismatch, ProductMismatch};
use crate::ports::{EffectKind, EffectOfFact, LedgerInconsistency};
use handover_outbox::ports::{DeadLetter, Numbered, UnreadableRow};

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// The event of a committed change is missing in the outbox.
    MissingEvent,
    /// An event is FAILED: the broker did not confirm it.
    NotConfirmed,
    /// An event was confirmed, but a consumer has no consume-log record of it.
    NotConsumed,
    /// A consumer recorded an event as applied, but its effect is missing.
    MissingEffect,
    /// A dead letter whose event has no outbox row.
    UnknownEvent,
    /// An outbox row has a value that cannot be read. The event is neither published nor applied until an operator
    /// corrects the value.
    UnreadableRow,
    /// A business fact of an order has the same effect more than once.
    DoubledEffect,
    /// The order of an effect does not exist or contradicts the effect.
    EffectWithoutFact,
    /// A hold is missing although asset operations or an applied cancellation require it.
    MissingHold,
    /// A captured or refunded amount is not in the ledger.
    NotBooked,
    /// The entries of a ledger operation do not sum to zero, or the operation is missing.
    Unbalanced,
    /// A balance differs from the sum of its entries.
    Drifted,
    /// An order occupies a product that is not `sold`: it may be sold twice.
    ProductNotSold,
    /// More than one order occupies a product.
    SoldTwice,
    /// A product is `sold`, but no order occupies it.
    SoldWithoutOrder,
    /// An order is paid, but no payment of its amount succeeded.
    PaidWithoutPayment,
    /// An order is paid, but its payment is FAILED.
    PaymentFailed,
    /// A payment is SUCCESS, but its order is pending.
    PaymentNotApplied,
    /// A refund is settled or lost, but its order is still paid or waits for it.
    RefundNotApplied,
    /// Captured money that buys nothing has no refund in PROCESSING or SUCCESS.
    NotRefunded,
    /// A report of the gateway is open: an operator must decide and close it.
    GatewayReport,
}

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

impl FindingKind {
    pub const ALL: [FindingKind; 21] = [
        FindingKind::MissingEvent,
        FindingKind::NotConfirmed,
        FindingKind::NotConsumed,
        FindingKind::MissingEffect,
        FindingKind::UnknownEvent,
        FindingKind::UnreadableRow,
        FindingKind::DoubledEffect,
        FindingKind::EffectWithoutFact,
        FindingKind::MissingHold,
        FindingKind::NotBooked,
        FindingKind::Unbalanced,
        FindingKind::Drifted,
        FindingKind::ProductNotSold,
        FindingKind::SoldTwice,
        FindingKind::SoldWithoutOrder,
        FindingKind::PaidWithoutPayment,
        FindingKind::PaymentFailed,
        FindingKind::PaymentNotApplied,
        FindingKind::RefundNotApplied,
        FindingKind::NotRefunded,
        FindingKind::GatewayReport,
    ];

    /// Name of the kind in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            FindingKind::MissingEvent => "missingEvent",
            FindingKind::NotConfirmed => "notConfirmed",
            FindingKind::NotConsumed => "notConsumed",
            FindingKind::MissingEffect => "missingEffect",
            FindingKind::UnknownEvent => "unknownEvent",
            FindingKind::UnreadableRow => "unreadableRow",
            FindingKind::DoubledEffect => "doubledEffect",
            FindingKind::EffectWithoutFact => "effectWithoutFact",
            FindingKind::MissingHold => "missingHold",
            FindingKind::NotBooked => "notBooked",
            FindingKind::Unbalanced => "unbalanced",
            FindingKind::Drifted => "drifted",
            FindingKind::ProductNotSold => "productNotSold",
            FindingKind::SoldTwice => "soldTwice",
            FindingKind::SoldWithoutOrder => "soldWithoutOrder",
            FindingKind::PaidWithoutPayment => "paidWithoutPayment",
            FindingKind::PaymentFailed => "paymentFailed",
            FindingKind::PaymentNotApplied => "paymentNotApplied",
            FindingKind::RefundNotApplied => "refundNotApplied",
            FindingKind::NotRefunded => "notRefunded",
            FindingKind::GatewayReport => "gatewayReport",
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
            Repair::RecordWritten => "writtenDown",
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
    /// `report:9`.
    pub key: Option<String>,
    /// Description for operators.
    pub what: String,
    /// How the finding was repaired; `None` if it was not or could not be repaired.
    pub repair: Option<Repair>,
    /// The contradiction of a finding about money.
    pub(super) mismatch: Option<MoneyMismatch>,
}

impl Finding {
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
        }
    }

    pub(super) fn of_report(report: Numbered<GatewayReport>) -> Finding {
        let Numbered { id, effect: report } = report;
        Finding {
            kind: FindingKind::GatewayReport,
            // A report of an unknown payment or refund has no tenant, but a finding must have one.
            tenant: report.tenant.unwrap_or(TenantId::DEFAULT),
            order: report.order,
            event_id: None,
            event_type: None,
            consumer: None,
            key: Some(format!("report:{id}")),
            what: format!("report {id} of the gateway about a {} is open: {}", report.kind, report.outcome),
            repair: None,
            mismatch: None,
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
        }
    }

    /// Finding for a dead letter whose event is not in the outbox, because the database was restored or the message is
    /// foreign.
    pub(super) fn of_dead_letter(dead_letter: DeadLetter, event_id: EventId) -> Finding {
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
        }
    }

    pub(super) fn of_ledger(discrepancy: &LedgerInconsistency) -> Finding {
        let (kind, tenant, key, what) = match discrepancy {
            LedgerInconsistency::Unbalanced { tenant, key, sum } => {
                let what =
                    format!("the entries of {key} sum to {sum} instead of 0, or the operation is missing");
                (FindingKind::Unbalanced, *tenant, Some(key.to_string()), what)
            }
            LedgerInconsistency::Drifted { tenant, user, account, balance, entries } => {
                let asset = account.asset();
                let balance = asset.show(*balance);
                let entries = asset.show(*entries);
                let what =
                    format!("user {user} has {balance} in {account}, but the entries sum to {entries}");
                (FindingKind::Drifted, *tenant, None, what)
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
        }
    }
}
