//! Applies events that have no delivery left: they wait, were left unsettled by a crash, or were lost by the broker.
//! They are processed from their outbox rows, through the same gate as deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, stream};
use handover_events::{AggregateRef, EventId};
use tracing::{debug, error, warn};

use super::attempt::Attempts;
use super::broker_timeout::broker_timeout;
use super::event_processor::{EventProcessor, LOCK_WAIT_LIMIT};
use super::outage::outage;
use super::outcome::SingleOutcome;
use super::single::{CountFirst, SingleEvents};
use crate::event_line::event_line;
use crate::metrics::LEFT_AGE;
use crate::ports::{OutboxRow, OutboxView, StoreError};
use crate::transaction::with_tx;

/// Maximum number of events per query.
const BATCH: u32 = 100;
/// Number of unsettled events after which a sweep ends.
const MAX_TRIED: usize = 5_000;
/// Number of lock timeouts after which a sweep applies no more unsettled events.
const MAX_POSTPONED: u32 = 3;
/// A sweep calls other systems for at most one in this many events of the prefetch at the same time.
const SHARE_OF_PREFETCH: u16 = 4;
/// Pause before the next attempt during an outage of the database.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// If the queue is not empty, it may still contain the event. An event then counts as lost only after this percentage
/// of the normal time (`consumer.lost-after`).
const QUEUED_WAIT_PERCENT: i32 = 150;

/// Runs the sweep periodically until the process stops.
pub(super) async fn run(processor: EventProcessor) {
    let stopping = processor.outbox.stopping().clone();
    metrics::gauge!(LEFT_AGE, "consumer" => processor.bound.name.clone()).set(0.0);
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = processor.outbox.sleep(processor.settings.sweep_interval) => {}
        }
        if let Err(error) = sweep(&processor).await {
            warn!(code = "consumer.sweep-failed", %error, consumer = processor.name(), "[{}] sweep failed; next run in {:?}", processor.name(), processor.settings.sweep_interval);
        }
    }
}

/// Applies unsettled events, then lost ones.
async fn sweep(processor: &EventProcessor) -> Result<(), StoreError> {
    // Events that this sweep has tried: those that could not be settled are found again.
    let mut tried = BTreeSet::new();
    loop {
        let mut batch = stale_events(processor, BATCH as usize + tried.len()).await?;
        batch.retain(|event| !tried.contains(event));
        batch.truncate(BATCH as usize);
        let rows = match batch.is_empty() {
            true => Vec::new(),
            false => processor.outbox.view().await?.outbox_view().outbox_by_event(&batch).await?,
        };
        let by_event: BTreeMap<&EventId, &OutboxRow> = rows.iter().map(|row| (&row.event_id, row)).collect();
        let mut by_aggregate: BTreeMap<Option<&AggregateRef>, Vec<&EventId>> = BTreeMap::new();
        for event in &batch {
            by_aggregate.entry(by_event.get(event).map(|row| &row.aggregate)).or_default().push(event);
        }
        // Calls of other systems may be slow: some for different aggregates run concurrently, beside those for deliveries.
        let at_once = match processor.bound.external {
            Some(_) => usize::from(processor.settings.prefetch.get().div_ceil(SHARE_OF_PREFETCH)),
            None => 1,
        };
        let postponed = AtomicU32::new(0);
        let is_paused = AtomicBool::new(false);
        let ends = || {
            is_paused.load(Ordering::Relaxed)
                || processor.outbox.stopping().is_cancelled()
                // The next sweep starts with the remaining events.
                || postponed.load(Ordering::Relaxed) >= MAX_POSTPONED
        };
        let apply = async |events: Vec<&EventId>| {
            for event in events {
                if ends() {
                    break;
                }
                match apply_stale(processor, event, by_event.get(event).copied()).await? {
                    SweepOutcome::Postponed => drop(postponed.fetch_add(1, Ordering::Relaxed)),
                    SweepOutcome::Paused => is_paused.store(true, Ordering::Relaxed),
                    SweepOutcome::Recorded | SweepOutcome::Rejected => {}
                }
            }
            Ok(())
        };
        let applied: Vec<Result<(), StoreError>> =
            stream::iter(by_aggregate.into_values()).map(apply).buffer_unordered(at_once).collect().await;
        applied.into_iter().collect::<Result<(), StoreError>>()?;
        if is_paused.into_inner() || processor.outbox.stopping().is_cancelled() {
            return Ok(());
        }
        if batch.len() < BATCH as usize || postponed.into_inner() > 0 || tried.len() >= MAX_TRIED {
            break;
        }
        tried.extend(batch);
    }
    find_lost(processor).await
}

/// Applies an unsettled event; `None`: it has no outbox row, so there is nothing to apply.
async fn apply_stale(
    processor: &EventProcessor,
    event: &EventId,
    row: Option<&OutboxRow>,
) -> Result<SweepOutcome, StoreError> {
    if let Some(row) = row {
        event_line!(
            INFO,
            processor.fields(row),
            code = "consumer.event.swept",
            queue = processor.queue(),
            consumer = processor.name(),
            "[{}] applying an unsettled event without a delivery",
            processor.name()
        );
    }
    apply_event(processor, event, row).await
}

/// Oldest events that may have no delivery left, without those that are left to other processes.
async fn stale_events(processor: &EventProcessor, most: usize) -> Result<Vec<EventId>, StoreError> {
    let now = processor.outbox.now();
    let idle_since = now - TimeDelta::from_std(processor.settings.sweep_interval).unwrap_or_default();
    let mut view = processor.outbox.view().await?;
    let foreign_types = processor.foreign_types(view.outbox_view()).await?;
    report_left_age(processor, view.outbox_view(), foreign_types.is_empty()).await?;
    let except: Vec<&str> = foreign_types.iter().map(String::as_str).collect();
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    view.outbox_view().stale_consumptions(processor.name(), &except, idle_since, now, most).await
}

/// Sets the gauge of the oldest event that is left to other processes.
async fn report_left_age(
    processor: &EventProcessor,
    view: &mut dyn OutboxView,
    has_none: bool,
) -> Result<(), StoreError> {
    let mut age_seconds = 0.0;
    let now = processor.outbox.now();
    let own = processor.bound.event_types();
    if !has_none
        && let Some(oldest) = view.stale_consumptions(processor.name(), &own, now, now, 1).await?.first()
        && let Some(record) = view.consumption(processor.name(), oldest).await?
    {
        age_seconds = (now - record.consume_time).as_seconds_f64().max(0.0);
    }
    metrics::gauge!(LEFT_AGE, "consumer" => processor.bound.name.clone()).set(age_seconds);
    Ok(())
}

/// Applies events that the broker confirmed and did not deliver, and advances `checked_until`.
async fn find_lost(processor: &EventProcessor) -> Result<(), StoreError> {
    let name = processor.name();
    // Open only one view at a time: a caller that keeps one view and waits for another can block forever on a store
    // with few connections.
    let Some(position) = processor.outbox.view().await?.outbox_view().consumer_subscription(name).await?
    else {
        return Ok(());
    };
    let delivery_limit = processor.settings.lost_after + processor.bound.delay;
    let mut wait_limit = TimeDelta::from_std(delivery_limit).unwrap_or(TimeDelta::MAX);
    let has_queued = has_queued_messages(processor).await;
    if has_queued {
        wait_limit =
            wait_limit.checked_mul(QUEUED_WAIT_PERCENT).map_or(TimeDelta::MAX, |wait_limit| wait_limit / 100);
    }
    let now = processor.outbox.now();
    let Some(until) = now.checked_sub_signed(wait_limit) else { return Ok(()) };
    if position.checked_until > now {
        // The clock was set back. If `checked_until` stayed in the future, events sent until then would not be checked.
        return set_checked_until(processor, until).await;
    }
    if until <= position.checked_until {
        return Ok(());
    }
    let types = &processor.bound.event_types();
    // Another consumer may have received an event from another outbox. Earlier ones of its aggregate have no rows while they are only
    // in this queue, so the order gate would not see them.
    let waits_for_queue = has_queued && processor.outbox.receives_from(processor.queue()).is_some();
    let most = if waits_for_queue { 1 } else { BATCH };
    let mut view = processor.outbox.view().await?;
    let lost = view
        .outbox_view()
        .unconsumed_events(name, types, position.after_id, position.checked_until, until, most)
        .await?;
    drop(view);
    if waits_for_queue && let Some(first) = lost.first() {
        // The next search begins at this event.
        let before = first.sent_time.map(|sent| sent - TimeDelta::microseconds(1));
        return match before.filter(|before| *before > position.checked_until) {
            Some(before) => set_checked_until(processor, before).await,
            None => Ok(()),
        };
    }
    let mut all_settled = true;
    for row in &lost {
        if processor.outbox.stopping().is_cancelled() {
            return Ok(());
        }
        event_line!(
            WARN,
            processor.fields(row),
            code = "consumer.event.lost",
            queue = processor.queue(),
            consumer = name,
            "[{name}] the broker lost a confirmed event; applying it from the outbox"
        );
        match apply_event(processor, &row.event_id, Some(row)).await? {
            SweepOutcome::Recorded | SweepOutcome::Postponed => {}
            SweepOutcome::Rejected => all_settled = false,
            SweepOutcome::Paused => return Ok(()),
        }
    }
    if all_settled && lost.len() < BATCH as usize {
        set_checked_until(processor, until).await?;
    }
    Ok(())
}

async fn set_checked_until(processor: &EventProcessor, until: DateTime<Utc>) -> Result<(), StoreError> {
    let name = Arc::clone(&processor.bound.name);
    with_tx(&processor.outbox.tx, name, move |unit, name, _| {
        Box::pin(async move { unit.outbox().set_checked_until(name, until).await })
    })
    .await
}

/// Result for an event without a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepOutcome {
    /// The consume log contains the result.
    Recorded,
    /// Another transaction holds a lock that the event needs; the consume log has a record of the event.
    Postponed,
    /// The store rejects the event.
    Rejected,
    /// The breaker of the consumer is open: the event may have no record, and no other event can be applied either.
    Paused,
}

/// Applies one event without a delivery; retries during an outage of the database. An event that the store rejects, or
/// that waits for a lock, must not block the others, so it does not end the sweep.
async fn apply_event(
    processor: &EventProcessor,
    event: &EventId,
    row: Option<&OutboxRow>,
) -> Result<SweepOutcome, StoreError> {
    let mut counted = None;
    loop {
        let started_at = processor.outbox.now();
        match SingleEvents::of(processor).apply(event, CountFirst::Yes, &mut counted).await {
            Ok(SingleOutcome::Paused(_)) => return Ok(SweepOutcome::Paused),
            Ok(_) => return Ok(SweepOutcome::Recorded),
            Err(StoreError::Transient(error))
                if (processor.outbox.now() - started_at)
                    .to_std()
                    .is_ok_and(|elapsed| elapsed >= LOCK_WAIT_LIMIT) =>
            {
                debug!(code = "consumer.event.lock-wait-timed-out", %error, eventId = %event, consumer = processor.name(), "[{}] lock wait timed out", processor.name());
                Attempts::of(processor).postpone(event, counted.as_ref()).await?;
                return Ok(SweepOutcome::Postponed);
            }
            // `counted` is kept: an outage during an attempt does not count as another attempt.
            Err(error) if error.is_outage() => {
                warn!(code = "consumer.sweep-paused", %error, consumer = processor.name(), "[{}] {}; sweep paused, retrying in {OUTAGE_PAUSE:?}", processor.name(), outage(&error));
                tokio::select! {
                    biased;
                    () = processor.outbox.stopping().cancelled() => return Err(error),
                    () = processor.outbox.sleep(OUTAGE_PAUSE) => {}
                }
            }
            Err(error) => {
                let (queue, consumer) = (processor.queue(), processor.name());
                match row {
                    Some(row) => {
                        event_line!(ERROR, processor.fields(row), code = "consumer.event.rejected", %error, queue,
                        consumer, "[{consumer}] [ALERT] the store rejects an event; the sweep skips it")
                    }
                    None => {
                        error!(code = "consumer.event.rejected", %error, eventId = %event, queue, consumer,
                        "[{consumer}] [ALERT] the store rejects an event; the sweep skips it")
                    }
                }
                return Ok(SweepOutcome::Rejected);
            }
        }
    }
}

/// Whether the queue still contains messages, or this process has unsettled ones of it. If the broker is unreachable, the queue counts
/// as not empty.
async fn has_queued_messages(processor: &EventProcessor) -> bool {
    match broker_timeout(processor.outbox.broker.queues()).await {
        Ok(queues) => {
            queues.iter().any(|queue| queue.name == processor.queue() && queue.ready + queue.unacked > 0)
        }
        Err(_) => true,
    }
}
