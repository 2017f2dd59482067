//! Repair of one finding in its own unit of work, based on the rows that this unit of work reads.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, Json, OutboxStatus, Trace};
use marketplace_domain::{Asset, EventBody, EventKind, FindingKind, Order, OrderId, Payable, Posting};

use super::compare::Subscriptions;
use super::findings::{Finding, Repair};
use crate::cash;
use crate::consistency::{MoneyMismatch, announce_missing, is_paid_for, occupy_product, reconstructed_hold};
use crate::consumer::{Consumer, Effect, HandlerContext, LostEffect};
use crate::context::{Actor, CommandContext};
use crate::ports::Work;
use crate::use_cases::operations::Operations;
use crate::use_cases::{FinishPayment, Finished};
use handover_outbox::consumers::{backfilled_record, retry_record};
use handover_outbox::history::{self, RedrivenBy};
use handover_outbox::operations::{Action, Operator, Reason, changed_by_earlier_attempt, present_fields};
use handover_outbox::ports::{AuditEntry, OutboxRow, Redrive, StoreError};
use handover_outbox::relay::envelope_of;
use handover_outbox::with_tx;

/// The findings that a run repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repairs {
    /// None.
    None,
    /// Those whose repair needs no decision of a person. A FAILED event is sent again only by an operator, and an event
    /// that a consumer has not applied yet is left to that consumer, which may have a backlog.
    Automatic,
    /// Every finding that can be repaired.
    All,
}

/// Operator and reason of a repair.
#[derive(Clone, Copy)]
pub(super) struct RepairContext<'a> {
    pub(super) operator: &'a Operator,
    pub(super) reason: Option<&'a Reason>,
    pub(super) repairs: Repairs,
}

/// Repairs a finding if possible. Returns how it was repaired; `None` if it was not.
pub(super) async fn repair(
    operations: &Operations,
    by: RepairContext<'_>,
    subscriptions: &Subscriptions,
    finding: &Finding,
) -> Result<Option<Repair>, StoreError> {
    if by.repairs == Repairs::None {
        return Ok(None);
    }
    let entry = entry(by, finding, operations.tx.now());
    if let (Some(mismatch), Some(order)) = (finding.mismatch, finding.order) {
        return finish(operations, by, entry, (order, mismatch)).await;
    }
    if let Some(payable) = finding.lacks_events_of() {
        // One call appends all missing events of the order or invoice.
        let events = &operations.handlers.events;
        announce_missing(&operations.tx, events, (finding.tenant, payable), Some(entry)).await?;
        return Ok(Some(Repair::Announced));
    }
    match (finding.kind, finding.order) {
        (
            FindingKind::MissingEvent
            | FindingKind::UnknownEvent
            | FindingKind::UnreadableRow
            | FindingKind::DoubledEffect
            | FindingKind::EffectWithoutFact
            | FindingKind::Unbalanced
            | FindingKind::Drifted
            | FindingKind::SoldTwice
            | FindingKind::SoldWithoutOrder
            | FindingKind::PaidWithoutPayment
            | FindingKind::PaymentFailed
            | FindingKind::PaymentNotApplied
            | FindingKind::RefundNotApplied
            | FindingKind::NotRefunded
            | FindingKind::GatewayReport
            | FindingKind::NotReported
            | FindingKind::MissingDelivery
            | FindingKind::InvoiceDiffers,
            _,
        )
        | (_, None) => Ok(None),
        (
            FindingKind::NotConfirmed
            | FindingKind::NotConsumed
            | FindingKind::MissingEffect
            | FindingKind::MissingHold
            | FindingKind::NotBooked
            | FindingKind::ProductNotSold,
            Some(order),
        ) => {
            let consumer = finding.consumer.as_deref().and_then(|name| subscriptions.named(name)).cloned();
            let handlers = operations.handlers.clone();
            let is_automatic = by.repairs == Repairs::Automatic;
            let job = RepairJob { handlers, finding: finding.clone(), order, consumer, entry, is_automatic };
            with_tx(&operations.tx, job, |unit, job, attempt| {
                Box::pin(async move {
                    if changed_by_earlier_attempt(unit.outbox(), attempt, &job.entry).await?.is_some() {
                        return Ok(Some(Repair::RecordWritten));
                    }
                    let repaired = job.run(unit).await?;
                    if repaired.is_some() {
                        unit.outbox().audit(&AuditEntry { changed: 1, ..job.entry.clone() }).await?;
                    }
                    Ok(repaired)
                })
            })
            .await
        }
    }
}

/// Finishes a payment or refund whose order did not change with it.
async fn finish(
    operations: &Operations,
    by: RepairContext<'_>,
    entry: AuditEntry,
    (order, mismatch): (OrderId, MoneyMismatch),
) -> Result<Option<Repair>, StoreError> {
    let tenant = entry.tenant;
    let actor = Actor::System("reconciliation");
    let trace = match by.repairs {
        Repairs::Automatic => Trace { trace_id: format!("repair-{order}"), traceparent: None },
        Repairs::All | Repairs::None => by.operator.trace.clone(),
    };
    let context = CommandContext { actor, tenant, trace, request_id: None };
    let command = FinishPayment { tenant, order, mismatch, entry: Some(entry) };
    Ok(operations.payments.finish(&context, command).await?.map(Repair::from))
}

fn entry(
    RepairContext { operator, reason, .. }: RepairContext<'_>,
    finding: &Finding,
    at: DateTime<Utc>,
) -> AuditEntry {
    let text = |text: &Option<String>| text.as_deref().map(Json::from);
    let selection = present_fields([
        ("finding", Some(finding.kind.as_str().into())),
        ("orderId", finding.order.map(|order| order.get().into())),
        ("eventId", finding.event_id.as_ref().map(|id| id.as_str().into())),
        ("consumer", text(&finding.consumer)),
        ("idempotencyKey", text(&finding.key)),
    ]);
    let action = Action { name: "reconciliation.repair", selection, reason: reason.cloned() };
    AuditEntry { matched: 1, tenant: finding.tenant, ..action.entry(operator, (1, 1), at) }
}

/// Repair of one finding.
struct RepairJob {
    handlers: HandlerContext,
    finding: Finding,
    order: OrderId,
    consumer: Option<Arc<dyn Consumer>>,
    entry: AuditEntry,
    is_automatic: bool,
}

impl RepairJob {
    async fn run(&self, unit: &mut Work) -> Result<Option<Repair>, StoreError> {
        let tenant = self.finding.tenant;
        let Some(order) = unit.order_by_id(tenant, self.order).await? else { return Ok(None) };
        if self.finding.kind == FindingKind::NotBooked {
            return self.post_missing(unit, &order).await;
        }
        if self.finding.kind == FindingKind::MissingHold {
            return self.restore_hold(unit, &order).await;
        }
        if self.finding.kind == FindingKind::ProductNotSold {
            let is_changed = occupy_product(unit, &order, self.entry.at).await?;
            return Ok(is_changed.then_some(Repair::ProductSold));
        }
        let Some(event) = &self.finding.event_id else { return Ok(None) };
        let Some(row) = unit.outbox().outbox_by_event(std::slice::from_ref(event)).await?.pop() else {
            return Ok(None);
        };
        // Consumers would ship and credit an order that nobody has paid.
        if requires_payment(&row) && !is_paid_for(&order, &unit.payments_of(tenant, &[order.id]).await?) {
            return Ok(None);
        }
        let (Some(consumer), true) = (&self.consumer, self.finding.kind != FindingKind::NotConfirmed) else {
            if self.is_automatic && row.status == OutboxStatus::Failed {
                return Ok(None);
            }
            return self.redrive(unit, event).await;
        };
        let Some(body) = envelope_of(&row).ok().and_then(|envelope| EventBody::of(&envelope).ok()) else {
            return Ok(None);
        };
        let stored = consumer.read_effects(unit, std::slice::from_ref(&order)).await?;
        let name = consumer.name();
        let records = unit.outbox().consumed_of(std::slice::from_ref(event)).await?;
        let consumed = records.iter().find(|consumed| consumed.consumer == name);
        let rules = self.handlers.points;
        let compared = stored.first().map(|stored| stored.compare(&body, &order, consumed, rules));
        let effect = compared.unwrap_or(Effect::Invisible);
        let record = consumed.map(|consumed| &consumed.record);
        match record.map(|record| record.status) {
            None if effect.is_present() => {
                unit.outbox().record(&[backfilled_record(name, &row, self.entry.at)]).await?;
                Ok(Some(Repair::RecordWritten))
            }
            None if self.is_automatic => Ok(None),
            None => self.redrive(unit, event).await,
            Some(ConsumeStatus::Success) if effect.is_missing() => {
                let now = self.entry.at;
                let lost = LostEffect { order: &order, row: &row, event: &body, effect: &effect, now };
                if consumer.restore(unit, &lost).await? {
                    return Ok(Some(Repair::RecordWritten));
                }
                unit.outbox().record(&[retry_record(name, &row, record, self.entry.at)]).await?;
                Ok(Some(Repair::Reapplied))
            }
            Some(
                ConsumeStatus::Success
                | ConsumeStatus::Processing
                | ConsumeStatus::Waiting
                | ConsumeStatus::Failed
                | ConsumeStatus::Dead,
            ) => Ok(None),
        }
    }

    async fn redrive(&self, unit: &mut Work, event: &EventId) -> Result<Option<Repair>, StoreError> {
        let redrive = Redrive { event_id: event.clone(), due: self.entry.at };
        let by = RedrivenBy { actor: &self.entry.actor, reason: self.entry.reason.as_deref() };
        let moved = history::redrive(unit.outbox(), &[redrive], by, self.entry.at).await?;
        Ok((moved > 0).then_some(Repair::Redriven))
    }

    /// Writes a lost hold, reconstructed from other rows. No amount is moved.
    async fn restore_hold(&self, unit: &mut Work, order: &Order) -> Result<Option<Repair>, StoreError> {
        let of = |asset: &Asset| Some(asset.as_str()) == self.finding.consumer.as_deref();
        let Some(asset) = Asset::HELD.into_iter().find(of) else { return Ok(None) };
        if !unit.lock_holds(asset, &[(order.tenant, order.id)]).await?.is_empty() {
            return Ok(None);
        }
        let operations = unit.operations_of(order.tenant, &[order.id]).await?;
        let Some(hold) = reconstructed_hold(order, asset, &operations, self.entry.at) else {
            return Ok(None);
        };
        unit.put_holds(&[hold]).await?;
        Ok(Some(Repair::RecordWritten))
    }

    /// Posts a captured or refunded amount that is not in the ledger. If its entries exist and only the operation is
    /// lost, writes only the operation.
    async fn post_missing(&self, unit: &mut Work, order: &Order) -> Result<Option<Repair>, StoreError> {
        let payments = unit.payments_of(order.tenant, &[order.id]).await?;
        let refunds = unit.refunds_of(order.tenant, &[order.id]).await?;
        let stored = unit.captures_of(order.tenant, &[order.id]).await?;
        let captures = cash::captures_of(&payments, stored);
        let payable = Payable::Order(order.clone());
        let event_factory = self.handlers.events.empty_factory(&self.entry.trace_id, self.entry.at);
        let mut postings: Vec<Posting> = Vec::new();
        for capture in &captures {
            let payment = payments.iter().find(|payment| payment.id == capture.payment);
            postings.extend(
                payment
                    .into_iter()
                    .flat_map(|payment| cash::captured(capture, payment, &payable, None, &event_factory)),
            );
            for refund in refunds.iter().filter(|refund| capture.is_refunded_by(refund)) {
                postings.extend(cash::postings_of_refund(refund, capture, &payable, &event_factory));
            }
        }
        postings.retain(|posting| Some(posting.operation.key.as_str()) == self.finding.key.as_deref());
        let Some(posting) = postings.first_mut() else { return Ok(None) };
        let key = posting.operation.key.clone();
        if !unit.operations_by_key(order.tenant, std::slice::from_ref(&key)).await?.is_empty() {
            return Ok(None);
        }
        if !unit.entries_by_key(order.tenant, &[key]).await?.is_empty() {
            posting.entries.clear();
        }
        unit.post(&postings).await?;
        Ok(Some(Repair::RecordWritten))
    }
}

impl From<Finished> for Repair {
    fn from(finished: Finished) -> Repair {
        match finished {
            Finished::OrderPaid => Repair::OrderPaid,
            Finished::RefundStarted => Repair::RefundStarted,
            Finished::OrderRefunded => Repair::OrderRefunded,
            Finished::RefundAbandoned => Repair::RefundAbandoned,
        }
    }
}

/// Whether only a paid order has this event.
fn requires_payment(row: &OutboxRow) -> bool {
    let of_paid_order = [EventKind::OrderPaid, EventKind::OrderStatusChanged, EventKind::OrderRefunded];
    of_paid_order.iter().any(|it| it.as_str() == row.event_type)
}
