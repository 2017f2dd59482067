//! A group of deliveries in one commit: the fast way. On any trouble the group is rolled back and each goes alone;
//! attempts are counted only there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, Envelope, EventId};
use tracing::debug;

use super::Applied;
use super::bound::HandlerUnit;
use super::gate::{Verdict, plan};
use super::inbox::{Inbox, InboxError, LOCK_PATIENCE, Taken, Told, carries, claimed_aggregate};
use crate::mutants::{Mutant, planted};
use crate::ports::{
    Consumed, Delivery, DeliveryTag, HistoryEntry, OutboxRow, OutboxUnit, StoreError, Unapplied,
};
use crate::relay::TRACEPARENT;
use crate::{Attempt, history, with_tx};

/// What became of a group.
#[derive(Debug, Default)]
pub(super) struct GroupEnd {
    /// Done: to be acked.
    pub(super) done: Vec<DeliveryTag>,
    /// To be looked at one by one.
    pub(super) alone: Vec<Taken>,
    /// One of them held up all others: it waited for a lock, or its handler took too long.
    pub(super) held_up: bool,
}

/// A group ends after this share of the time that one attempt may take: then each delivery waits for itself alone.
const SHARE_OF_ATTEMPT: u32 = 4;

/// The longest aggregate type that is looked for: that of the outbox's column.
const MAX_AGGREGATE_TYPE: usize = 64;

/// Whether an envelope can be looked for by the aggregate that it names. A text of any other kind may be one that the
/// database refuses to compare: it would take the group apart.
fn is_plain(envelope: &Envelope) -> bool {
    let kind = &envelope.aggregate_type;
    kind.len() <= MAX_AGGREGATE_TYPE && !kind.contains('\0')
}

impl Inbox {
    /// Applies what can be applied of these deliveries in one unit of work.
    pub(super) async fn apply_group(&self, deliveries: Vec<Taken>) -> GroupEnd {
        let mut end = GroupEnd::default();
        let mut group: Vec<(Delivery, Arc<Envelope>)> = Vec::new();
        for taken in deliveries {
            match taken {
                Taken { delivery, envelope: Some(envelope) }
                    if !delivery.redelivered && is_plain(&envelope) =>
                {
                    group.push((delivery, envelope));
                }
                // A redelivered one may be what killed a process: its attempt is counted before it runs.
                taken => end.alone.push(taken),
            }
        }
        if group.is_empty() {
            return end;
        }
        let wanted = Arc::new(Wanted::of(&group));
        let (inbox, job) = (self.clone(), Arc::clone(&wanted));
        let begun = self.outbox.now();
        let settled = with_tx(&self.tx, move |unit, attempt| {
            let (inbox, job) = (inbox.clone(), Arc::clone(&job));
            Box::pin(async move { inbox.settle_group(unit, attempt, &job, begun).await })
        })
        .await;
        match settled {
            Ok(mut settled) => {
                for (delivery, envelope) in group {
                    // Another message under the same id was not looked at: that one goes alone.
                    let is_wanted = wanted.envelopes.get(&envelope.event_id) == Some(&envelope);
                    let done = if is_wanted { settled.get_mut(&envelope.event_id) } else { None };
                    if let Some(done) = done {
                        let told = Told {
                            id: &envelope.event_id,
                            kind: &envelope.event_type,
                            trace: &envelope.trace_id,
                            traceparent: delivery.message.headers.get(TRACEPARENT).map(String::as_str),
                            took: self.outbox.now() - begun,
                            aggregate_type: &envelope.aggregate_type,
                            aggregate: envelope.aggregate_id,
                        };
                        match done {
                            Settled::Applied(applied) => {
                                self.tell(&told, applied);
                                // Further deliveries of it in this group were ignored.
                                *done = Settled::Duplicate;
                            }
                            Settled::Duplicate => self.log_duplicate(told.id, told.trace),
                            Settled::Waiting => {}
                        }
                        end.done.push(delivery.tag);
                    } else {
                        end.alone.push(Taken { delivery, envelope: Some(envelope) });
                    }
                }
            }
            Err(error) => {
                debug!(%error, consumer = self.name(), "a group is taken apart");
                end.held_up = (self.outbox.now() - begun).to_std().is_ok_and(|took| took >= LOCK_PATIENCE);
                let taken = |(delivery, envelope)| Taken { delivery, envelope: Some(envelope) };
                end.alone.extend(group.into_iter().map(taken));
            }
        }
        end
    }

    /// One unit: what is unsettled, the gate, the handler, the log, the duplicates. Returns the events that are settled and
    /// those that wait.
    async fn settle_group(
        &self,
        unit: &mut dyn HandlerUnit,
        attempt: Attempt,
        wanted: &Wanted,
        begun: DateTime<Utc>,
    ) -> Result<BTreeMap<EventId, Settled>, InboxError> {
        let unapplied = self.unapplied(unit.outbox(), &wanted.aggregates).await?;
        let carriers: BTreeMap<EventId, Arc<Envelope>> = unapplied
            .iter()
            .filter_map(|u| wanted.envelopes.get(&u.event.event_id).filter(|it| carries(it, &u.event)))
            .map(|envelope| (envelope.event_id.clone(), Arc::clone(envelope)))
            .collect();
        let targets: BTreeSet<EventId> = carriers.keys().cloned().collect();
        let now = self.outbox.now();
        let (mut apply, mut wait) = (Vec::new(), Vec::new());
        for aggregate in by_aggregate(&unapplied) {
            for step in plan(aggregate, &targets, self.outbox.registry.unordered(), None, now) {
                match step.verdict {
                    Verdict::Apply => apply.push(step.event),
                    Verdict::Wait => wait.push(step.event),
                    Verdict::Busy(_) => {}
                }
            }
        }
        let suspect = |step: &&Unapplied| {
            step.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Processing)
        };
        if apply.iter().any(suspect) {
            // An attempt that never ended: it may be what kills a process, so it is counted first, alone.
            return Err(InboxError::Moved);
        }
        let limit = self.settings.attempt_timeout / SHARE_OF_ATTEMPT;
        let applied =
            if apply.is_empty() { Vec::new() } else { self.apply(unit, &apply, &carriers, limit).await? };
        let waiting: Vec<_> = wait
            .iter()
            .filter(|step| step.record.is_none())
            .map(|step| self.record(step, ConsumeStatus::Waiting, 0, now))
            .collect();
        if !waiting.is_empty() {
            unit.outbox().record(&waiting).await?;
        }
        let done = apply.iter().zip(applied).map(|(step, applied)| (step, Settled::Applied(applied)));
        let settled = done.chain(wait.iter().map(|step| (step, Settled::Waiting)));
        let settled = settled.map(|(step, settled)| (step.event.event_id.clone(), settled));
        let mut settled: BTreeMap<_, _> = settled.filter(|(id, _)| targets.contains(id)).collect();
        let known = self.known(unit.outbox(), wanted, &targets).await?;
        let again = apply.iter().map(|step| &step.event).filter(|row| targets.contains(&row.event_id));
        let ignored = again.flat_map(|row| std::iter::repeat_n(row, wanted.deliveries(row) - 1));
        let ignored =
            ignored.chain(known.iter().flat_map(|row| std::iter::repeat_n(row, wanted.deliveries(row))));
        let entries: Vec<HistoryEntry> = ignored.map(|row| self.duplicate(row, begun)).collect();
        if !entries.is_empty() {
            history::add(unit.outbox(), attempt, entries).await?;
        }
        settled.extend(known.into_iter().map(|row| (row.event_id, Settled::Duplicate)));
        Ok(settled)
    }

    /// Those of the wanted events that this consumer has applied before; the others are looked at one by one.
    async fn known(
        &self,
        outbox: &mut dyn OutboxUnit,
        wanted: &Wanted,
        targets: &BTreeSet<EventId>,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let others: Vec<EventId> =
            wanted.envelopes.keys().filter(|event| !targets.contains(event)).cloned().collect();
        if others.is_empty() || planted(Mutant::NoDedupe) {
            return Ok(Vec::new());
        }
        let consumed = outbox.consumed_of(&others).await?;
        let is_ours =
            |it: &&Consumed| it.consumer == self.name() && it.record.status == ConsumeStatus::Success;
        let applied: BTreeSet<&EventId> = consumed.iter().filter(is_ours).map(|it| &it.event_id).collect();
        let mut rows = outbox.outbox_by_event(&others).await?;
        rows.retain(|row| {
            let envelope = wanted.envelopes.get(&row.event_id);
            applied.contains(&row.event_id) && envelope.is_some_and(|envelope| carries(envelope, row))
        });
        Ok(rows)
    }
}

/// What a group did with an event.
enum Settled {
    /// Applied it just now.
    Applied(Applied),
    /// Recorded it as `WAITING`, or found it so.
    Waiting,
    /// Ignored it: this consumer had applied it before.
    Duplicate,
}

/// What a group asks for.
struct Wanted {
    envelopes: BTreeMap<EventId, Arc<Envelope>>,
    /// How many deliveries carry each of the envelopes.
    deliveries: BTreeMap<EventId, usize>,
    aggregates: Vec<AggregateRef>,
}

impl Wanted {
    fn of(group: &[(Delivery, Arc<Envelope>)]) -> Wanted {
        let aggregates: BTreeSet<AggregateRef> =
            group.iter().map(|(delivery, envelope)| claimed_aggregate(envelope, &delivery.message)).collect();
        let envelopes: BTreeMap<EventId, Arc<Envelope>> =
            group.iter().map(|(_, envelope)| (envelope.event_id.clone(), Arc::clone(envelope))).collect();
        let mut deliveries = BTreeMap::new();
        for (_, envelope) in group.iter().filter(|(_, it)| envelopes.get(&it.event_id) == Some(it)) {
            *deliveries.entry(envelope.event_id.clone()).or_default() += 1;
        }
        Wanted { envelopes, deliveries, aggregates: aggregates.into_iter().collect() }
    }

    /// How many deliveries of the row's event there are: at least one.
    fn deliveries(&self, row: &OutboxRow) -> usize {
        self.deliveries.get(&row.event_id).copied().unwrap_or(1)
    }
}

/// Splits a list that is sorted by aggregate.
fn by_aggregate(unapplied: &[Unapplied]) -> impl Iterator<Item = &[Unapplied]> {
    unapplied.chunk_by(|left, right| left.event.aggregate == right.event.aggregate)
}
