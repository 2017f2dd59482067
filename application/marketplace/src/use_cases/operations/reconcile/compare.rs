//! Comparison of orders, from their rows to the effects of their events.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus};
use marketplace_domain::{
    Asset, EventBody, EventKind, FindingKind, Hold, OperationKey, OperationKind, Order, PointsRules,
};

use super::findings::{Finding, Record};
use super::outside::{ConsumeLog, missing_deliveries, not_reported, reports_of, requests_of_retried};
use super::report::Reconciliation;
use crate::cash;
use crate::consistency::{
    ExpectedEvent, MoneyMismatch, OrderEffects, OrderMoney, OrderRows, confirmed_mismatches,
    effects_of_orders, read_rows,
};
use crate::consumer::{Consumer, Consumers, EffectRow};
use crate::ports::MarketView;
use crate::use_cases::operations::Operations;
use handover_outbox::ports::{Consumed, OutboxRow, StoreError};
use handover_outbox::relay::envelope_of;

/// The subscriptions of the consumers, with the start of each subscription.
pub(super) struct Subscriptions(Vec<Subscribed>);

pub(super) struct Subscribed {
    pub(super) consumer: Arc<dyn Consumer>,
    after_id: i64,
    delay: TimeDelta,
}

impl Subscriptions {
    pub(super) async fn of(operations: &Operations) -> Result<Subscriptions, StoreError> {
        let mut view = operations.tx.view().await?;
        let mut subscribed = Vec::new();
        for consumer in operations.consumers.iter() {
            if let Some(subscription) = view.outbox_view().consumer_subscription(consumer.name()).await? {
                let delay = consumer.queue(operations.handlers.pending_timeout).delay();
                subscribed.push(Subscribed {
                    consumer: Arc::clone(consumer),
                    after_id: subscription.after_id,
                    delay: TimeDelta::from_std(delay).unwrap_or(TimeDelta::MAX),
                });
            }
        }
        Ok(Subscriptions(subscribed))
    }

    pub(super) fn named(&self, name: &str) -> Option<&Arc<dyn Consumer>> {
        self.0.iter().map(|subscribed| &subscribed.consumer).find(|consumer| consumer.name() == name)
    }

    /// The consumers that must process an event.
    fn of_event<'a>(&'a self, row: &'a OutboxRow) -> impl Iterator<Item = &'a Subscribed> {
        self.0.iter().filter(|subscribed| {
            subscribed.consumer.event_types().contains(&row.event_type.as_str())
                && row.id > subscribed.after_id
        })
    }
}

/// What the orders are compared with.
pub(super) struct Criteria {
    pub(super) subscriptions: Subscriptions,
    pub(super) consumers: Consumers,
    pub(super) rules: PointsRules,
    pub(super) now: DateTime<Utc>,
    /// Time that a confirmed event may be in flight.
    pub(super) grace: TimeDelta,
    /// Time after which a confirmed event without record and effect counts as lost: a consumer with a backlog needs longer
    /// than the grace period.
    pub(super) lost_after: TimeDelta,
}

/// Returns the findings of these orders. Reads each stage of all orders before the stage that follows from it, so that
/// concurrent changes cause no false findings. Webhook deliveries of events that were applied before `deleted_before` may have
/// been deleted.
pub(super) async fn compare(
    view: &mut dyn MarketView,
    orders: &[Order],
    criteria: &Criteria,
    deleted_before: DateTime<Utc>,
    report: &mut Reconciliation,
) -> Result<Vec<Finding>, StoreError> {
    let mut rows = read_rows(view, orders).await?;
    let events: Vec<EventId> =
        rows.iter().flat_map(|of_order| &of_order.events).map(|row| row.event_id.clone()).collect();
    let consumed = view.outbox_view().consumed_of(&events).await?.into_iter();
    let log: ConsumeLog =
        consumed.map(|record| ((record.event_id.clone(), record.consumer.clone()), record)).collect();
    // Events that left the outbox after their rows were read have no consume-log records any more.
    let archived = view.outbox_view().archived_by_event(&events).await?;
    rows.iter_mut().for_each(|of_order| of_order.count_as_archived(&archived));
    let effects = effects_of_orders(view, &criteria.consumers, orders).await?;
    let mut reports = reports_of(view, orders).await?;
    let mut findings = Vec::new();
    for (rows, effects) in rows.iter().zip(&effects) {
        let comparison = Comparison { rows, log: &log, effects, criteria };
        findings.extend(comparison.run(view, report).await?);
        let requests = requests_of_retried(view, rows).await?;
        findings.extend(not_reported(rows, &reports.take(rows.order), &requests, criteria.now));
    }
    findings.extend(missing_deliveries(view, &rows, &log, deleted_before).await?);
    Ok(findings)
}

/// Comparison of one order.
struct Comparison<'a> {
    rows: &'a OrderRows<'a>,
    log: &'a ConsumeLog,
    effects: &'a OrderEffects,
    criteria: &'a Criteria,
}

impl Comparison<'_> {
    /// Returns the findings of the order.
    async fn run(
        &self,
        view: &mut dyn MarketView,
        report: &mut Reconciliation,
    ) -> Result<Vec<Finding>, StoreError> {
        let Comparison { rows, log, effects, criteria } = self;
        let order = rows.order;
        report.orders += 1;
        let mut findings = self.missing_postings();
        findings.extend(rows.missing_events().iter().map(|event| self.missing_event(event)));
        // After the missing events, because their repair MUST run first (`finish_payment`).
        findings.extend(self.money_mismatches(view).await?);
        findings.extend(self.wrong_effects(view).await?);
        for row in &rows.events {
            report.events += 1;
            report.confirmed += u64::from(row.sent_time.is_some());
            if row.status == OutboxStatus::Failed {
                findings.push(self.of_event(
                    row,
                    FindingKind::NotConfirmed,
                    "the event is FAILED: the broker did not confirm it",
                ));
                continue;
            }
            if row.status == OutboxStatus::Sent && row.sent_time.is_none() {
                findings.push(self.of_event(
                    row,
                    FindingKind::NotConfirmed,
                    "the event is SENT, but its row has no time of the broker's confirm",
                ));
                continue;
            }
            let Some(body) = envelope_of(row).ok().and_then(|envelope| EventBody::of(&envelope).ok()) else {
                continue;
            };
            for subscribed in criteria.subscriptions.of_event(row) {
                let record = log.get(&(row.event_id.clone(), subscribed.consumer.name().to_owned()));
                self.of_consumer((row, &body), subscribed, record, report, &mut findings);
            }
        }
        let cancelled = EventKind::OrderCancelled.as_str();
        let released: Vec<&EventId> =
            rows.events.iter().filter(|row| row.event_type == cancelled).map(|row| &row.event_id).collect();
        let is_archived = rows.archived.iter().any(|event| event.event_type == cancelled);
        let is_released = |asset: Asset| {
            is_archived
                || released.iter().any(|event| {
                    let record = log.get(&((*event).clone(), asset.as_str().to_owned()));
                    record.is_some_and(|it| it.record.status == ConsumeStatus::Success)
                })
        };
        findings.extend(
            effects.lost_holds(order, is_released, criteria.now).iter().map(|hold| self.lost_hold(hold)),
        );
        Ok(findings)
    }

    fn missing_event(&self, event: &ExpectedEvent) -> Finding {
        self.finding(FindingKind::MissingEvent, event.describe_missing()).with_missing_event(event)
    }

    /// Findings for effects that exist twice or contradict the order.
    async fn wrong_effects(&self, view: &mut dyn MarketView) -> Result<Vec<Finding>, StoreError> {
        let Comparison { rows: OrderRows { order, .. }, effects, .. } = self;
        let finding = |kind, row: &EffectRow, what: String| Finding {
            event_id: row.event_id.clone(),
            key: Some(row.fact.clone()),
            record: Record { part: Some(row.table.to_owned()), ..Record::default() },
            ..self.finding(kind, what)
        };
        let duplicate = |row: &EffectRow| {
            let what = format!("table {} has more than one row for the fact {}", row.table, row.fact);
            finding(FindingKind::DoubledEffect, row, what)
        };
        let mut findings: Vec<Finding> = effects.duplicates().iter().map(duplicate).collect();
        if !effects.contradicted(order).is_empty()
            // The order was read before its effects and may have changed since: read it again.
            && let Some(order) = view.order_by_id(order.tenant, order.id).await?
        {
            findings.extend(effects.contradicted(&order).iter().map(|row| {
                let what = format!(
                    "table {} contains an effect of kind {}, but the order is {}",
                    row.table, row.fact, order.status
                );
                finding(FindingKind::EffectWithoutFact, row, what)
            }));
        }
        Ok(findings)
    }

    /// Findings for contradictions between the order, its payments and its refunds.
    async fn money_mismatches(&self, view: &mut dyn MarketView) -> Result<Vec<Finding>, StoreError> {
        let OrderRows { order, payments, captures, refunds, .. } = self.rows;
        let money = OrderMoney { order, payments, captures, refunds };
        if money.mismatches().is_empty() {
            return Ok(Vec::new());
        }
        let confirmed = confirmed_mismatches(view, order).await?.into_iter();
        let finding = |(mismatch, what): (MoneyMismatch, String)| Finding {
            key: mismatch.key(),
            mismatch: Some(mismatch),
            ..self.finding(mismatch.into(), what)
        };
        Ok(confirmed.map(finding).collect())
    }

    fn lost_hold(&self, hold: &Hold) -> Finding {
        let Hold { asset, amount, status, .. } = hold;
        let what =
            format!("the hold of {} {asset} is missing; its status should be {status}", asset.show(*amount));
        Finding {
            consumer: Some(asset.as_str().to_owned()),
            key: Some(OperationKey::freeze(*asset, self.rows.order.id).to_string()),
            ..self.finding(FindingKind::MissingHold, what)
        }
    }

    fn of_consumer(
        &self,
        (row, body): (&OutboxRow, &EventBody),
        subscribed: &Subscribed,
        record: Option<&Consumed>,
        report: &mut Reconciliation,
        findings: &mut Vec<Finding>,
    ) {
        let consumer = subscribed.consumer.name();
        let effect = self.effects.of(consumer, body, self.rows.order, record, self.criteria.rules);
        let of_consumer = |kind, what: String| Finding {
            consumer: Some(consumer.to_owned()),
            ..self.of_event(row, kind, what)
        };
        match record.map(|consumed| consumed.record.status) {
            Some(ConsumeStatus::Success) => {
                report.consumed += 1;
                if effect.is_missing() {
                    findings.push(of_consumer(FindingKind::MissingEffect, effect.to_string()));
                } else {
                    report.effects += u64::from(effect.is_present());
                }
            }
            Some(ConsumeStatus::Dead) => report.parked += 1,
            Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) => {
                report.pending += 1;
            }
            // An idle consumer gets no delivery. If its effect is missing, it was not idle.
            None if row.idle_consumers.contains(consumer) && !effect.is_missing() => {}
            None => {
                let sent = row.sent_time.filter(|_| row.status == OutboxStatus::Sent);
                let grace = if effect.is_present() { self.criteria.grace } else { self.criteria.lost_after };
                let is_lost = sent.is_some_and(|sent| sent + subscribed.delay + grace < self.criteria.now);
                if is_lost {
                    let present = if effect.is_present() { ", but its effect exists" } else { "" };
                    let what = format!("no consume-log record of {consumer}{present}");
                    findings.push(of_consumer(FindingKind::NotConsumed, what));
                } else {
                    report.pending += 1;
                }
            }
        }
    }

    /// Returns a finding for each captured or refunded amount that is not in the ledger.
    fn missing_postings(&self) -> Vec<Finding> {
        let OrderRows { captures, refunds, .. } = self.rows;
        let mut findings = Vec::new();
        for capture in captures.iter().filter(|it| it.amount.minor() > 0) {
            let key = OperationKey::capture(capture.payment, capture.number);
            if !self.effects.has_cash_operation(OperationKind::Capture, &key) {
                let what = format!("payment {} of {} is not in the ledger", capture.payment, capture.amount);
                let finding = self.finding(FindingKind::NotBooked, what);
                findings.push(Finding { key: Some(key.to_string()), ..finding });
            }
        }
        for refund in refunds.iter().filter(|it| it.amount.minor() > 0) {
            for (kind, key) in cash::operations_of_refund(refund) {
                if !self.effects.has_cash_operation(kind, &key) {
                    let what = format!("refund {} of {} is not in the ledger", refund.id, refund.amount);
                    let finding = self.finding(FindingKind::NotBooked, what);
                    findings.push(Finding { key: Some(key.to_string()), ..finding });
                }
            }
        }
        findings
    }

    fn finding(&self, kind: FindingKind, what: impl Into<String>) -> Finding {
        Finding::of_order(self.rows.order, kind, what)
    }

    fn of_event(&self, row: &OutboxRow, kind: FindingKind, what: impl Into<String>) -> Finding {
        Finding::of_event(self.rows.order, row, kind, what)
    }
}
