//! Checks outbox rows: a row becomes SENT only after a publisher confirm and in the order of its aggregate; each failed
//! publish increments `retry_count` at most once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, PartitionSet};
use handover_outbox::OnOutage;
use handover_outbox::ports::{
    Changed, Confirmed, FailedPublish, LeaseRepoWrapper, NewEvent, OnFailed, OperatorRepoWrapper,
    OutboxRepoWrapper, OutboxRow, OwnedPartition, PartitionLease, Redrive, RedrivenRow, RelayId, StoreError,
    UnorderedTypes,
};
use marketplace::ports::MarketUnit;
use marketplace_domain::{EventKind, Hold, HoldStatus, OrderId};

use super::super::{Faulty, Unit};
use crate::fault_kinds::{CrashPoint, Fault};
use crate::row_kinds::{is_manual, is_ordered, is_unpublishable};
use crate::run_settings::RELAY_BACKOFF;

impl OutboxRepoWrapper for Unit {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        self.writes.record_appended(events);
        let events = &*self.without_lost_rows(events);
        let repaired = self.repaired(events).await?;
        if !repaired.is_empty() {
            self.process.maybe_crash(CrashPoint::InRepair).await;
        }
        self.inner.outbox().append(events).await?;
        for event in events {
            self.writes.inserted.push(event.event_id.clone());
            let what = || event_name(&event.event_type, &event.event_id, &event.aggregate);
            self.inserted("outbox row", OutboxStatus::New.as_str(), what);
            if repaired.contains(&event.event_id) {
                // The oracle permits that later events of the order overtook this event while its row was lost.
                self.cover("lost event appended again");
                self.writes.failed_or_dead.push(event.event_id.clone());
            }
        }
        self.writes.webhooks.record_appended(events);
        self.writes.appends_events |= !events.is_empty();
        Ok(())
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError> {
        let ours = self.inner.outbox().fence(owner, holds).await?;
        self.writes.settler = Some((owner.clone(), holds.to_vec()));
        if holds.iter().any(|hold| !ours.contains(hold.partition)) {
            self.cover("partition lost while its rows are published");
        }
        Ok(ours)
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let ids: Vec<EventId> = confirmed.iter().map(|it| it.event_id().clone()).collect();
        let rows = self.rows(&ids).await?;
        self.check_confirmed(&rows);
        self.check_order(&rows).await?;
        self.add_transitions(&rows, true, &ids.iter().map(|id| (id, OutboxStatus::Sent)).collect());
        self.inner.outbox().mark_sent(confirmed, now).await
    }

    async fn mark_sent_if_owned(
        &mut self,
        owner: &RelayId,
        holds: &[OwnedPartition],
        confirmed: &BTreeMap<Partition, Vec<Confirmed>>,
        now: DateTime<Utc>,
    ) -> Result<PartitionSet, StoreError> {
        let ours = self.fence(owner, holds).await?;
        let of_ours = confirmed.iter().filter(|(partition, _)| ours.contains(**partition));
        let confirmed: Vec<&Confirmed> = of_ours.flat_map(|(_, confirmed)| confirmed).collect();
        if !confirmed.is_empty() {
            self.mark_sent(&confirmed, now).await?;
        }
        Ok(ours)
    }

    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let ids: Vec<EventId> = failed.iter().map(|it| it.event_id.clone()).collect();
        let rows = self.rows(&ids).await?;
        let to: BTreeMap<&EventId, &FailedPublish> = failed.iter().map(|it| (&it.event_id, it)).collect();
        for row in rows.iter().filter(|row| row.status.is_pending()) {
            if let Some(after) = to.get(&row.event_id) {
                self.check_failed(row, after);
            }
        }
        self.add_transitions(&rows, true, &failed.iter().map(|it| (&it.event_id, it.status)).collect());
        self.inner.outbox().mark_failed(failed, now).await
    }
}

impl OperatorRepoWrapper for Unit {
    async fn redrive(
        &mut self,
        redriven: &[Redrive],
        now: DateTime<Utc>,
    ) -> Result<Vec<RedrivenRow>, StoreError> {
        let ids: Vec<EventId> = redriven.iter().map(|it| it.event_id.clone()).collect();
        let rows = self.rows(&ids).await?;
        let changed = self.inner.outbox().redrive(redriven, now).await?;
        // Another operator may already have redriven some of the rows; only changed rows have a transition.
        self.add_transitions(
            &rows,
            false,
            &changed.iter().map(|row| (&row.event_id, OutboxStatus::Retry)).collect(),
        );
        let by_reaper = self.is_by_reaper(&rows).await?;
        if by_reaper && !changed.is_empty() {
            self.cover("ORDER_PAID redriven by the reaper");
        }
        self.writes.appends_events = !changed.is_empty();
        self.writes.by_operator = !changed.is_empty() && !by_reaper;
        self.writes.redriven.extend(ids);
        Ok(changed)
    }

    async fn release(
        &mut self,
        aggregate: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let released = self.inner.outbox().release(aggregate, unordered, now).await?;
        if released > 0 {
            self.writes.by_operator = true;
            self.writes.released.push(aggregate.clone());
        }
        Ok(released)
    }
}

impl LeaseRepoWrapper for Unit {
    async fn acquire_partition(
        &mut self,
        relay: &RelayId,
        observed: &PartitionLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let changed = self.inner.outbox().acquire_partition(relay, observed, for_ms).await?;
        self.writes.acquires_partitions |= changed == Changed::One;
        Ok(changed)
    }
}

/// Whether the event has a new id assigned by the repair job, so no consumer has seen it.
fn has_repair_id(event: &NewEvent) -> bool {
    event.event_id.as_str().starts_with("repair:")
}

/// Name of an event in the log.
fn event_name(event_type: &str, id: &EventId, aggregate: &AggregateRef) -> String {
    format!("{event_type} {id} of {} {}", aggregate.kind.to_lowercase(), aggregate.id)
}

pub(super) fn of(row: &OutboxRow) -> String {
    event_name(&row.event_type, &row.event_id, &row.aggregate)
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    pub(super) async fn rows(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        self.inner.outbox().outbox_by_event(events).await
    }

    /// Returns the events that the repair job appends. Such an event has an id with the prefix of the repair job, or a
    /// consume-log record from the time before its row was lost.
    async fn repaired(&mut self, events: &[NewEvent]) -> Result<BTreeSet<EventId>, StoreError> {
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let known =
            self.inner.outbox().consumed_of(&ids).await?.into_iter().map(|consumed| consumed.event_id);
        let new = events.iter().filter(|event| has_repair_id(event)).map(|event| event.event_id.clone());
        Ok(known.chain(new).collect())
    }

    /// Removes the events whose rows are lost by a fault.
    fn without_lost_rows<'e>(&mut self, events: &'e [NewEvent]) -> Cow<'e, [NewEvent]> {
        let is_paid =
            |event: &NewEvent| event.event_type == EventKind::OrderPaid.as_str() && !has_repair_id(event);
        if events.iter().any(is_paid) && self.process.faults.occurs(Fault::RowNeverInserted) {
            self.process.note(|| {
                format!(
                    "loses the row of {}",
                    events.iter().map(|it| it.event_id.to_string()).collect::<String>()
                )
            });
            return events.iter().filter(|event| !is_paid(event)).cloned().collect();
        }
        Cow::Borrowed(events)
    }

    /// Whether the reaper redrives these rows. Unlike an operator, the reaper writes no audit entry, and redrives only
    /// the ORDER_PAID event of an order with a hold. If the consumer applies the event before the redrive, the hold is
    /// committed, and the redriven event is a duplicate.
    async fn is_by_reaper(&mut self, rows: &[OutboxRow]) -> Result<bool, StoreError> {
        let [row] = rows else { return Ok(false) };
        let Ok(order) = OrderId::try_from(&row.aggregate.id) else { return Ok(false) };
        let holds = self.inner.holds_of(row.aggregate.tenant, &[order]).await?;
        let is_paid = row.event_type == EventKind::OrderPaid.as_str();
        let held = |hold: &Hold| matches!(hold.status, HoldStatus::Frozen | HoldStatus::Committed);
        Ok(is_paid && holds.iter().any(held))
    }

    fn check_confirmed(&mut self, sent: &[OutboxRow]) {
        for row in sent {
            if !self.process.faults.observed(|observed| observed.confirmed.contains(&row.event_id)) {
                self.writes.violations.push(format!("{} became SENT without a confirm", of(row)));
            }
        }
    }

    /// A SENT event must not have overtaken a pending event, or a FAILED event that blocks it.
    async fn check_order(&mut self, sent: &[OutboxRow]) -> Result<(), StoreError> {
        let aggregates: Vec<AggregateRef> = sent.iter().map(|row| row.aggregate.clone()).collect();
        let all = self.inner.outbox().outbox_about(&aggregates).await?;
        let faults = self.process.faults.clone();
        for row in sent.iter().filter(|row| is_ordered(row)) {
            let earlier = all.iter().filter(|it| {
                it.aggregate == row.aggregate && is_ordered(it) && it.aggregate_seq < row.aggregate_seq
            });
            // Manually inserted rows are ignored: they may have been added after the later row was published.
            let earlier = earlier.filter(|it| !is_manual(&it.event_id));
            for it in earlier {
                let (confirmed, failed_or_dead, released) = faults.observed(|observed| {
                    let id = &it.event_id;
                    (
                        observed.confirmed.contains(id),
                        observed.failed_or_dead.contains(id),
                        observed.released.contains(&it.aggregate),
                    )
                });
                let passed = it.status.is_pending() && !failed_or_dead;
                let holds = self.process.on_failed == OnFailed::Hold && it.status == OutboxStatus::Failed;
                if !confirmed && (passed || (holds && !released)) {
                    let violation = format!("{} was sent before {}, which is {}", of(row), of(it), it.status);
                    self.writes.violations.push(violation);
                }
            }
        }
        Ok(())
    }

    /// Checks that a failure is counted only once, and only if the broker refused the event individually, and that the
    /// last allowed failure sets the row to FAILED.
    fn check_failed(&mut self, row: &OutboxRow, after: &FailedPublish) {
        if (row.retry_count, row.next_retry_time) == (after.retry_count, after.next_retry_time) {
            // The same failure is recorded again after a commit of unknown outcome, or the write changes nothing.
            return;
        }
        if is_unpublishable(&row.event_id) {
            if after.status != OutboxStatus::Failed {
                let violation = format!("{} is unpublishable, but is retried", of(row));
                self.writes.violations.push(violation);
            }
            return;
        }
        let charged = after.status == OutboxStatus::Failed || after.next_retry_time.is_some();
        if after.retry_count != row.retry_count + u32::from(charged) {
            let violation = format!(
                "{}: retry_count went from {} to {}, expected +1 if the failure counts, else +0",
                of(row),
                row.retry_count,
                after.retry_count
            );
            self.writes.violations.push(violation);
        }
        let refused = self.process.faults.observed(|observed| observed.was_refused(&row.event_id));
        if charged && !refused && self.process.on_outage == OnOutage::Wait {
            self.writes
                .violations
                .push(format!("{}: a failure was counted, but the broker did not refuse the event", of(row)));
        }
        if let Some(backoff) = RELAY_BACKOFF.get(row.retry_count as usize).filter(|_| charged) {
            self.writes.backoffs.push((row.event_id.clone(), *backoff));
        }
        let spent = after.retry_count > row.max_retry_count;
        if spent != (after.status == OutboxStatus::Failed) {
            let violation = format!(
                "{} is {} after {} failures; it must be FAILED if and only if they exceed `max_retry_count`",
                of(row),
                after.status,
                after.retry_count
            );
            self.writes.violations.push(violation);
        }
    }

    /// Adds the transitions of the rows whose status was pending before the write, or final if `pending` is false.
    fn add_transitions(&mut self, rows: &[OutboxRow], pending: bool, to: &BTreeMap<&EventId, OutboxStatus>) {
        for row in rows.iter().filter(|row| row.status.is_pending() == pending) {
            let Some(to) = to.get(&row.event_id) else { continue };
            self.transition(("outbox row", row.status.as_str(), to.as_str()), || of(row));
            if *to == OutboxStatus::Failed {
                self.writes.failed_or_dead.push(row.event_id.clone());
            }
            if pending {
                self.writes.settled.insert(row.partition());
            }
        }
        self.writes.settles_rows |= pending;
    }
}
