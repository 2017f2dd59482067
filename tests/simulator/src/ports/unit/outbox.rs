//! The outbox: SENT only after a confirm, in the order of the aggregate, failures counted one by one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::OnOutage;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::{Faulty, Unit};
use crate::actors::rows_by_hand::{is_by_hand, is_unsendable};
use crate::faults::{CrashPoint, Fault};
use crate::oracle::is_ordered;
use crate::setting::RELAY_RESTS;

impl OutboxRepoWrapper for Unit {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        let events = &*self.without_lost(events);
        let repaired = self.repaired(events).await?;
        if !repaired.is_empty() {
            self.process.may_die(CrashPoint::InRepair).await;
        }
        self.inner.outbox().append(events).await?;
        for event in events {
            let what = || named(&event.event_type, &event.event_id, &event.aggregate);
            self.inserted("an outbox row", OutboxStatus::New.as_str(), what);
            if repaired.contains(&event.event_id) {
                // Later ones of its order went on while it was lost.
                self.cover("a lost event announced once more");
                self.wrote.given_up.push(event.event_id.clone());
            }
        }
        self.wrote.announces |= !events.is_empty();
        Ok(())
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[PartitionHold]) -> Result<PartitionSet, StoreError> {
        let ours = self.inner.outbox().fence(owner, holds).await?;
        self.wrote.settler = Some((owner.clone(), holds.to_vec()));
        if holds.iter().any(|hold| !ours.contains(hold.partition)) {
            self.cover("a partition lost in the middle of a window");
        }
        Ok(ours)
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let ids: Vec<EventId> = confirmed.iter().map(|it| it.event_id().clone()).collect();
        let rows = self.rows(&ids).await?;
        self.check_confirmed(&rows);
        self.check_order(&rows).await?;
        self.moved(&rows, true, &ids.iter().map(|id| (id, OutboxStatus::Sent)).collect());
        self.inner.outbox().mark_sent(confirmed, now).await
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
        self.moved(&rows, true, &failed.iter().map(|it| (&it.event_id, it.status)).collect());
        self.inner.outbox().mark_failed(failed, now).await
    }

    async fn redrive(
        &mut self,
        redriven: &[Redrive],
        now: DateTime<Utc>,
    ) -> Result<Vec<RedrivenRow>, StoreError> {
        let ids: Vec<EventId> = redriven.iter().map(|it| it.event_id.clone()).collect();
        let rows = self.rows(&ids).await?;
        let changed = self.inner.outbox().redrive(redriven, now).await?;
        // Another operator may have been faster with some of them.
        self.moved(&rows, false, &changed.iter().map(|row| (&row.event_id, OutboxStatus::Retry)).collect());
        let by_reaper = self.is_by_reaper(&rows).await?;
        if by_reaper && !changed.is_empty() {
            self.cover("a paid event sent again by the reaper");
        }
        self.wrote.announces = !changed.is_empty();
        self.wrote.by_operator = !changed.is_empty() && !by_reaper;
        self.wrote.redriven.extend(ids);
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
            self.wrote.by_operator = true;
            self.wrote.released.push(aggregate.clone());
        }
        Ok(released)
    }
}

impl LeaseRepoWrapper for Unit {
    async fn take_partition(
        &mut self,
        relay: &RelayId,
        seen: &PartitionLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let changed = self.inner.outbox().take_partition(relay, seen, for_ms).await?;
        self.wrote.takes |= changed == Changed::One;
        Ok(changed)
    }
}

/// Whether nobody knew of the event before the repair announces it.
fn is_new_to_all(event: &NewEvent) -> bool {
    event.event_id.as_str().starts_with("repair:")
}

/// An event in the words of the story.
fn named(event_type: &str, id: &EventId, aggregate: &AggregateRef) -> String {
    format!("{event_type} {id} of {} {}", aggregate.kind.to_lowercase(), aggregate.id)
}

fn of(row: &OutboxRow) -> String {
    named(&row.event_type, &row.event_id, &row.aggregate)
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    async fn rows(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        self.inner.outbox().outbox_by_event(events).await
    }

    /// Those of the events that the repair announces: nobody knows them, or a consumer did before their row was lost.
    async fn repaired(&mut self, events: &[NewEvent]) -> Result<BTreeSet<EventId>, StoreError> {
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let known =
            self.inner.outbox().consumed_of(&ids).await?.into_iter().map(|consumed| consumed.event_id);
        let new = events.iter().filter(|event| is_new_to_all(event)).map(|event| event.event_id.clone());
        Ok(known.chain(new).collect())
    }

    /// The events that get into the outbox.
    fn without_lost<'e>(&mut self, events: &'e [NewEvent]) -> Cow<'e, [NewEvent]> {
        let is_paid =
            |event: &NewEvent| event.event_type == EventType::OrderPaid.as_str() && !is_new_to_all(event);
        if events.iter().any(is_paid) && self.process.faults.strikes(Fault::RowNeverThere) {
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

    /// Whether these rows may be moved by the reaper, who is no operator: the payment of one order that holds something,
    /// or did when the reaper looked. Its consumer may have been faster than this statement, and then a repeat reaches it.
    async fn is_by_reaper(&mut self, rows: &[OutboxRow]) -> Result<bool, StoreError> {
        let [row] = rows else { return Ok(false) };
        let Ok(order) = OrderId::try_from(row.aggregate.id) else { return Ok(false) };
        let holds = self.inner.holds_of(row.aggregate.tenant, order).await?;
        let is_paid = row.event_type == EventType::OrderPaid.as_str();
        let held = |hold: &Hold| matches!(hold.status, HoldStatus::Frozen | HoldStatus::Committed);
        Ok(is_paid && holds.iter().any(held))
    }

    fn check_confirmed(&mut self, sent: &[OutboxRow]) {
        for row in sent {
            if !self.process.faults.seen(|seen| seen.confirmed.contains(&row.event_id)) {
                self.wrote.broken.push(format!("{} became SENT, and no broker ever confirmed it", of(row)));
            }
        }
    }

    /// Whoever is sent has passed nothing that was on its way, nor what holds it.
    async fn check_order(&mut self, sent: &[OutboxRow]) -> Result<(), StoreError> {
        let aggregates: Vec<AggregateRef> = sent.iter().map(|row| row.aggregate.clone()).collect();
        let all = self.inner.outbox().outbox_about(&aggregates).await?;
        let faults = self.process.faults.clone();
        for row in sent.iter().filter(|row| is_ordered(row)) {
            let earlier = all.iter().filter(|it| {
                it.aggregate == row.aggregate && is_ordered(it) && it.aggregate_seq < row.aggregate_seq
            });
            // What was inserted by hand may have come when this one was on its way.
            let earlier = earlier.filter(|it| !is_by_hand(&it.event_id));
            for it in earlier {
                let (confirmed, given_up, released) = faults.seen(|seen| {
                    let id = &it.event_id;
                    (
                        seen.confirmed.contains(id),
                        seen.given_up.contains(id),
                        seen.released.contains(&it.aggregate),
                    )
                });
                let passed = it.status.is_pending() && !given_up;
                let holds = self.process.on_failed == OnFailed::Hold && it.status == OutboxStatus::Failed;
                if !confirmed && (passed || (holds && !released)) {
                    let broken = format!("{} was sent before {}, which is {}", of(row), of(it), it.status);
                    self.wrote.broken.push(broken);
                }
            }
        }
        Ok(())
    }

    /// A failure is counted if the broker refused the event itself, once, and the last one possible ends it.
    fn check_failed(&mut self, row: &OutboxRow, after: &FailedPublish) {
        if (row.retry_count, row.next_retry_time) == (after.retry_count, after.next_retry_time) {
            // The same settlement again, after a commit of unknown outcome; or it waits as before.
            return;
        }
        if is_unsendable(&row.event_id) {
            if after.status != OutboxStatus::Failed {
                let broken = format!("{} can never be sent, and is to be tried again", of(row));
                self.wrote.broken.push(broken);
            }
            return;
        }
        let charged = after.status == OutboxStatus::Failed || after.next_retry_time.is_some();
        if after.retry_count != row.retry_count + u32::from(charged) {
            let broken = format!("{} failed {} times, then {}", of(row), row.retry_count, after.retry_count);
            self.wrote.broken.push(broken);
        }
        let refused = self.process.faults.seen(|seen| seen.was_refused(&row.event_id));
        if charged && !refused && self.process.on_outage == OnOutage::Wait {
            self.wrote.broken.push(format!("{} is charged with what the broker never refused", of(row)));
        }
        if let Some(rest) = RELAY_RESTS.get(row.retry_count as usize).filter(|_| charged) {
            self.wrote.charged.push((row.event_id.clone(), *rest));
        }
        let spent = after.retry_count > row.max_retry_count;
        if spent != (after.status == OutboxStatus::Failed) {
            let broken = format!("{} is {} after {} failures", of(row), after.status, after.retry_count);
            self.wrote.broken.push(broken);
        }
    }

    /// The steps of rows that still stood where they may be moved from.
    fn moved(&mut self, rows: &[OutboxRow], pending: bool, to: &BTreeMap<&EventId, OutboxStatus>) {
        for row in rows.iter().filter(|row| row.status.is_pending() == pending) {
            let Some(to) = to.get(&row.event_id) else { continue };
            self.step(("an outbox row", row.status.as_str(), to.as_str()), || of(row));
            if *to == OutboxStatus::Failed {
                self.wrote.given_up.push(row.event_id.clone());
            }
            if pending {
                self.wrote.settled.insert(row.partition());
            }
        }
        self.wrote.marks |= pending;
    }
}
