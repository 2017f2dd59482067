//! Applies a group of deliveries in one commit, for throughput. On any error the group is rolled back without counting
//! an attempt, and its deliveries are processed one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, Envelope, EventId};
use tracing::{Instrument, debug};

use super::bound::HandlerUnit;
use super::event_processor::{DeliveryFields, EventProcessor, LOCK_WAIT_LIMIT, ProcessError};
use super::gate::{Verdict, plan};
use super::gate_marks::Sought;
use super::gate_search::by_aggregate;
use super::identity::{ParsedDelivery, claimed_aggregate, claimed_position, matches_row};
use crate::event_line::EventFields;
use crate::handler::Applied;
use crate::history;
use crate::message::TRACEPARENT;
use crate::ports::{
    Consumed, Consumption, Delivery, DeliveryTag, HistoryEntry, OutboxRow, OutboxUnit, StoreError, Unapplied,
};
use crate::spans::failed;
use crate::transaction::{Attempt, with_tx};

/// Result of a group.
#[derive(Debug, Default)]
pub(super) struct GroupOutcome {
    /// Deliveries of settled events, to be acked.
    pub(super) done: Vec<DeliveryTag>,
    /// Deliveries to be processed one by one.
    pub(super) single: Vec<ParsedDelivery>,
    /// The group failed after at least [`LOCK_WAIT_LIMIT`]: it waited for a lock, or the handler was too slow.
    pub(super) is_slow: bool,
}

/// The time limit of a group is the time limit of one attempt divided by this number. If a group exceeds its limit,
/// each delivery is processed individually, so that a slow delivery delays only its aggregate.
const SHARE_OF_ATTEMPT: u32 = 4;

/// Longest aggregate type that is queried: the length of the outbox column.
const MAX_AGGREGATE_TYPE: usize = 64;

/// Whether the aggregate type of the envelope can be used in a query. The database may reject other texts, which would
/// fail the whole group.
fn is_plain(envelope: &Envelope) -> bool {
    let kind = &envelope.aggregate_type;
    kind.len() <= MAX_AGGREGATE_TYPE && !kind.contains('\0')
}

/// Whether a group can process the delivery. A redelivered event may have crashed a process, so its attempt must be counted
/// before it runs.
fn is_groupable(delivery: &Delivery, envelope: &Envelope) -> bool {
    !delivery.redelivered && is_plain(envelope)
}

/// Applies groups of deliveries of one consumer.
pub(super) struct Groups<'p> {
    processor: &'p EventProcessor,
}

impl<'p> Groups<'p> {
    pub(super) fn of(processor: &'p EventProcessor) -> Groups<'p> {
        Groups { processor }
    }

    /// Applies as many of these deliveries as possible in one unit of work.
    pub(super) async fn apply(&self, deliveries: Vec<ParsedDelivery>) -> GroupOutcome {
        let mut end = GroupOutcome::default();
        let mut group: Vec<(Delivery, Arc<Envelope>)> = Vec::new();
        for parsed in deliveries {
            match parsed {
                ParsedDelivery { delivery, envelope: Some(envelope) }
                    if is_groupable(&delivery, &envelope) =>
                {
                    group.push((delivery, envelope));
                }
                parsed => end.single.push(parsed),
            }
        }
        if group.is_empty() {
            return end;
        }
        let input = Arc::new(GroupInput::of(&group));
        let started_at = self.processor.outbox.now();
        let published = group.iter().filter_map(|(delivery, envelope)| {
            let traceparent = delivery.message.headers.get(TRACEPARENT)?;
            Some((envelope.event_id.clone(), traceparent.clone()))
        });
        let processor = self.processor.with_published(published.collect());
        let events: Vec<(&EventId, &str)> =
            group.iter().map(|(_, envelope)| (&envelope.event_id, envelope.event_type.as_str())).collect();
        let span = processor.span(&events);
        let job = (processor, Arc::clone(&input));
        let settled = with_tx(&self.processor.tx, job, move |unit, (processor, job), attempt| {
            Box::pin(async move {
                // A deferred write may fail because of a single delivery, and not say which one. The next attempt fails at
                // the statement, or not at all.
                if !attempt.is_repeated() {
                    unit.defer_writes();
                }
                Groups::of(processor).settle(unit, attempt, job, started_at).await
            })
        })
        .instrument(span.clone())
        .await;
        match settled {
            Ok(mut settled) => {
                if settled.values().any(|settled| matches!(settled.outcome, SettledAs::Applied(_))) {
                    self.processor.breaker.succeeded();
                }
                for (delivery, envelope) in group {
                    // A message with the same event id but another envelope was not checked: process it individually.
                    let is_same_message = input.envelopes.get(&envelope.event_id) == Some(&envelope);
                    let done = if is_same_message { settled.get_mut(&envelope.event_id) } else { None };
                    if let Some(done) = done {
                        self.log_settled(&delivery, &envelope, started_at, done);
                        end.done.push(delivery.tag);
                    } else {
                        end.single.push(ParsedDelivery { delivery, envelope: Some(envelope) });
                    }
                }
            }
            Err(error) => {
                failed(&span, "group");
                debug!(code = "consumer.batch-failed", %error, consumer = self.processor.name(), "batch failed; processing its deliveries one by one");
                end.is_slow = (self.processor.outbox.now() - started_at)
                    .to_std()
                    .is_ok_and(|elapsed| elapsed >= LOCK_WAIT_LIMIT);
                let parsed = |(delivery, envelope)| ParsedDelivery { delivery, envelope: Some(envelope) };
                end.single.extend(group.into_iter().map(parsed));
            }
        }
        end
    }

    fn log_settled(
        &self,
        delivery: &Delivery,
        envelope: &Envelope,
        started_at: DateTime<Utc>,
        settled: &mut Settled,
    ) {
        let request_id = settled.request_id.as_deref();
        let event = EventFields::of_envelope(&self.processor.outbox.registry, envelope, request_id);
        match &mut settled.outcome {
            SettledAs::Applied(applied) => {
                let fields = DeliveryFields {
                    event,
                    traceparent: delivery.message.headers.get(TRACEPARENT).map(String::as_str),
                    elapsed: self.processor.outbox.now() - started_at,
                    since_commit: self.processor.outbox.now() - envelope.occurred_at,
                };
                self.processor.log_applied(&fields, applied);
                // Further deliveries of this event in the group are logged as duplicates.
                settled.outcome = SettledAs::Duplicate;
            }
            SettledAs::Duplicate => self.processor.log_duplicate(event),
            SettledAs::Waiting => self.processor.log_left(event),
        }
    }

    /// Runs in one unit of work: reads the unsettled events, selects those that the order gate lets pass, runs the
    /// handler, writes the consume log and records duplicates. Returns the results of the delivered events that it
    /// settled or recorded as waiting.
    async fn settle(
        &self,
        unit: &mut dyn HandlerUnit,
        attempt: Attempt,
        input: &GroupInput,
        started_at: DateTime<Utc>,
    ) -> Result<BTreeMap<EventId, Settled>, ProcessError> {
        let unapplied = self.processor.unapplied(unit.outbox(), &input.sought).await?;
        let registry = &self.processor.outbox.registry;
        let mut matching: BTreeMap<EventId, Arc<Envelope>> = unapplied
            .iter()
            .filter_map(|u| {
                input.envelopes.get(&u.event.event_id).filter(|it| matches_row(registry, it, &u.event))
            })
            .map(|envelope| (envelope.event_id.clone(), Arc::clone(envelope)))
            .collect();
        let targets: BTreeSet<EventId> = matching.keys().cloned().collect();
        // A message may contain another value of such a field than the row.
        matching.retain(|_, envelope| !registry.has_closed_fields(&envelope.event_type));
        let now = self.processor.outbox.now();
        let takes = |event_type: &str| self.processor.bound.takes(event_type);
        let mut apply = Vec::new();
        let mut wait = Vec::new();
        for aggregate in by_aggregate(&unapplied) {
            for step in plan(aggregate, &targets, takes, &self.processor.unordered, None, now) {
                match step.verdict {
                    Verdict::Apply => apply.push(step.event),
                    Verdict::Wait(until) => wait.push((step.event, until)),
                    Verdict::Busy(_) => {}
                }
            }
        }
        let is_unfinished = |step: &&Unapplied| {
            step.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Processing)
        };
        if apply.iter().any(is_unfinished) {
            // An attempt at this event did not finish and may have crashed a process. The next attempt must be counted
            // before it runs, and only individual processing does that.
            return Err(ProcessError::Stale);
        }
        let limit = self.processor.settings.attempt_timeout / SHARE_OF_ATTEMPT;
        let applied = if apply.is_empty() {
            Vec::new()
        } else {
            self.processor.apply(unit, &apply, &matching, limit, None).await?
        };
        let waiting: Vec<_> = wait
            .iter()
            .filter(|(step, _)| step.record.is_none())
            .map(|(step, until)| {
                let record = self.processor.record(step, ConsumeStatus::Waiting, 0, now);
                Consumption { next_retry_time: *until, ..record }
            })
            .collect();
        if !waiting.is_empty() {
            unit.outbox().record(&waiting).await?;
        }
        let done = apply.iter().zip(applied).map(|(step, applied)| (step, SettledAs::Applied(applied)));
        let settled = done.chain(wait.iter().map(|(step, _)| (step, SettledAs::Waiting)));
        let settled =
            settled.map(|(step, outcome)| (step.event.event_id.clone(), Settled::of(&step.event, outcome)));
        let mut settled: BTreeMap<_, _> = settled.filter(|(id, _)| targets.contains(id)).collect();
        let already_applied = self.already_applied(unit.outbox(), input, &targets).await?;
        let applied = apply.iter().map(|step| &step.event).filter(|row| targets.contains(&row.event_id));
        let entries = self.duplicates(input, applied, &already_applied, started_at);
        if !entries.is_empty() {
            history::add(unit.outbox(), attempt, entries).await?;
        }
        settled.extend(already_applied.into_iter().map(|row| {
            let settled = Settled::of(&row, SettledAs::Duplicate);
            (row.event_id, settled)
        }));
        Ok(settled)
    }

    /// History entries of the deliveries that change nothing: all but the first of each event that the group applied, and
    /// all of each event that was already applied.
    fn duplicates<'r>(
        &self,
        input: &GroupInput,
        applied: impl Iterator<Item = &'r OutboxRow>,
        already_applied: &'r [OutboxRow],
        at: DateTime<Utc>,
    ) -> Vec<HistoryEntry> {
        let again = applied.flat_map(|row| std::iter::repeat_n(row, input.deliveries(row) - 1));
        let ignored = already_applied.iter().flat_map(|row| std::iter::repeat_n(row, input.deliveries(row)));
        again.chain(ignored).map(|row| self.processor.duplicate_entry(row, at)).collect()
    }

    /// Events of the group that this consumer has already applied. The others are processed one by one.
    async fn already_applied(
        &self,
        outbox: &mut dyn OutboxUnit,
        input: &GroupInput,
        targets: &BTreeSet<EventId>,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let others: Vec<EventId> =
            input.envelopes.keys().filter(|event| !targets.contains(event)).cloned().collect();
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let consumed = outbox.consumed_of(&others).await?;
        let is_ours = |it: &&Consumed| {
            it.consumer == self.processor.name() && it.record.status == ConsumeStatus::Success
        };
        let applied: BTreeSet<&EventId> = consumed.iter().filter(is_ours).map(|it| &it.event_id).collect();
        let mut rows = outbox.outbox_by_event(&others).await?;
        rows.retain(|row| {
            let envelope = input.envelopes.get(&row.event_id);
            applied.contains(&row.event_id)
                && envelope
                    .is_some_and(|envelope| matches_row(&self.processor.outbox.registry, envelope, row))
        });
        Ok(rows)
    }
}

/// Result of a group for one event, and what its log line needs of the row.
struct Settled {
    outcome: SettledAs,
    request_id: Option<String>,
}

impl Settled {
    fn of(row: &OutboxRow, outcome: SettledAs) -> Settled {
        Settled { outcome, request_id: row.metadata.request_id.clone() }
    }
}

/// How a group settled an event.
enum SettledAs {
    /// The group applied the event.
    Applied(Applied),
    /// The event is recorded as `WAITING`, by this group or an earlier delivery.
    Waiting,
    /// The delivery was ignored, because this consumer had already applied the event.
    Duplicate,
}

struct GroupInput {
    envelopes: BTreeMap<EventId, Arc<Envelope>>,
    /// Number of deliveries per event id. Deliveries whose envelope differs from that in `envelopes` are not counted.
    deliveries: BTreeMap<EventId, usize>,
    sought: Vec<Sought>,
}

impl GroupInput {
    fn of(group: &[(Delivery, Arc<Envelope>)]) -> GroupInput {
        let mut sought: BTreeMap<AggregateRef, Sought> = BTreeMap::new();
        for (delivery, envelope) in group {
            let aggregate = claimed_aggregate(envelope, &delivery.message);
            let of_aggregate =
                sought.entry(aggregate).or_insert_with_key(|aggregate| Sought::of(aggregate.clone()));
            of_aggregate.add(claimed_position(&delivery.message));
        }
        let envelopes: BTreeMap<EventId, Arc<Envelope>> =
            group.iter().map(|(_, envelope)| (envelope.event_id.clone(), Arc::clone(envelope))).collect();
        let mut deliveries = BTreeMap::new();
        for (_, envelope) in group.iter().filter(|(_, it)| envelopes.get(&it.event_id) == Some(it)) {
            *deliveries.entry(envelope.event_id.clone()).or_default() += 1;
        }
        GroupInput { envelopes, deliveries, sought: sought.into_values().collect() }
    }

    /// Number of deliveries of the row's event, at least one.
    fn deliveries(&self, row: &OutboxRow) -> usize {
        self.deliveries.get(&row.event_id).copied().unwrap_or(1)
    }
}
