//! Applies events that have no delivery left: they wait, or were left unsettled by a crash. Then those that the broker lost.
//! They are processed from their outbox rows, through the same gate as deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use chrono::TimeDelta;
use futures_util::{StreamExt as _, stream};
use handover_events::{AggregateRef, EventId};
use tokio::time::Instant;
use tracing::warn;

use super::event_processor::EventProcessor;
use super::lost_events::LostEvents;
use super::undelivered_event::{LONGEST_RUN, SweepOutcome, apply_event};
use crate::event_line::event_line;
use crate::metrics::LEFT_AGE;
use crate::ports::{OutboxRow, OutboxView, StoreError};

/// Maximum number of events per query.
const BATCH: u32 = 100;
/// Number of unsettled events after which a sweep ends.
const MAX_TRIED: usize = 5_000;
/// Number of lock timeouts after which a sweep applies no more unsettled events.
const MAX_POSTPONED: u32 = 3;
/// A sweep calls other systems for at most one in this many events of the prefetch at the same time.
const SHARE_OF_PREFETCH: u16 = 4;

/// Runs the sweep periodically until the process stops.
pub(super) async fn run(processor: EventProcessor) {
    let stopping = processor.outbox.stopping().clone();
    metrics::gauge!(LEFT_AGE, "consumer" => processor.bound.name.clone()).set(0.0);
    let mut lost_events = LostEvents::default();
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = processor.outbox.sleep(processor.settings.sweep_interval) => {}
        }
        if let Err(error) = sweep(&processor, &mut lost_events).await {
            warn!(code = "consumer.sweep-failed", %error, consumer = processor.name(), "[{}] sweep failed; next run in {:?}", processor.name(), processor.settings.sweep_interval);
        }
    }
}

/// Applies unsettled events, then lost ones.
async fn sweep(processor: &EventProcessor, lost_events: &mut LostEvents) -> Result<(), StoreError> {
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
            let until = Instant::now() + LONGEST_RUN;
            let mut applied = Vec::new();
            for event in events {
                if ends() || Instant::now() >= until {
                    break;
                }
                applied.push(event.clone());
                match apply_stale(processor, event, by_event.get(event).copied(), until).await? {
                    SweepOutcome::Postponed => drop(postponed.fetch_add(1, Ordering::Relaxed)),
                    SweepOutcome::Paused => is_paused.store(true, Ordering::Relaxed),
                    SweepOutcome::Recorded | SweepOutcome::Rejected => {}
                }
            }
            Ok(applied)
        };
        let applied: Vec<Result<Vec<EventId>, StoreError>> =
            stream::iter(by_aggregate.into_values()).map(apply).buffer_unordered(at_once).collect().await;
        for applied in applied {
            tried.extend(applied?);
        }
        if is_paused.into_inner() || processor.outbox.stopping().is_cancelled() {
            return Ok(());
        }
        if batch.len() < BATCH as usize || postponed.into_inner() > 0 || tried.len() >= MAX_TRIED {
            break;
        }
    }
    lost_events.find(processor).await
}

/// Applies an unsettled event; `None`: it has no outbox row, so there is nothing to apply.
async fn apply_stale(
    processor: &EventProcessor,
    event: &EventId,
    row: Option<&OutboxRow>,
    until: Instant,
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
    apply_event(processor, event, row, until).await
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
