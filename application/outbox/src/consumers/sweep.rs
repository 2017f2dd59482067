//! Finds what no delivery will bring back: events that wait, were left by a crash, or were lost by the broker.
//! Runs them from their outbox rows, through the same gate.

use std::time::Duration;

use chrono::TimeDelta;
use handover_events::EventId;
use tracing::{debug, error, info, warn};

use super::alone::CountFirst;
use super::answered::answered;
use super::inbox::{Inbox, LOCK_PATIENCE};
use crate::mutants::{Mutant, planted};
use crate::ports::StoreError;
use crate::with_tx;

/// Events looked at in one go.
const BATCH: u32 = 100;
/// Events that waited for a lock before a sweep ends.
const MOST_POSTPONED: u32 = 3;
/// How long the sweep waits before it asks a store again that is away.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// A queue that is not empty may still hold the event: it is given half as long again.
const PATIENCE_PERCENT: i32 = 150;

/// Sweeps until the process stops.
pub(super) async fn run(inbox: Inbox) {
    let stopping = inbox.outbox.tx.tasks.stopping().clone();
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = inbox.outbox.tx.clock.sleep(inbox.settings.sweep_interval) => {}
        }
        if let Err(error) = sweep(&inbox).await {
            warn!(%error, consumer = inbox.name(), "[{}] the sweep failed; it comes again", inbox.name());
        }
    }
}

async fn sweep(inbox: &Inbox) -> Result<(), StoreError> {
    let now = inbox.outbox.now();
    let idle_since = now - TimeDelta::from_std(inbox.settings.sweep_interval).unwrap_or_default();
    let leftovers =
        inbox.outbox.view().await?.outbox_view().leftovers(inbox.name(), idle_since, now, BATCH).await?;
    let mut postponed = 0;
    for event in leftovers {
        if inbox.outbox.tx.tasks.stopping().is_cancelled() {
            return Ok(());
        }
        if planted(Mutant::LeftoversForgotten) {
            break;
        }
        info!(eventId = %event, consumer = inbox.name(), queue = inbox.queue(), "[{}] taking up a leftover", inbox.name());
        if take_up(inbox, &event).await? == TakenUp::Postponed {
            postponed += 1;
        }
        // The next sweep begins with those that were not taken up yet.
        if postponed >= MOST_POSTPONED {
            break;
        }
    }
    find_lost(inbox).await
}

/// Applies events that the broker confirmed and never delivered, and moves the mark up to which none is missing.
async fn find_lost(inbox: &Inbox) -> Result<(), StoreError> {
    let name = inbox.name();
    // One view at a time: whoever holds one and waits for another can wait for ever on a store with few.
    let Some(mark) = inbox.outbox.view().await?.outbox_view().consumer_subscription(name).await? else {
        return Ok(());
    };
    let on_its_way = inbox.settings.lost_after + inbox.bound.delay;
    let mut patience = TimeDelta::from_std(on_its_way).unwrap_or(TimeDelta::MAX);
    if queued(inbox).await {
        patience = patience.checked_mul(PATIENCE_PERCENT).map_or(TimeDelta::MAX, |patience| patience / 100);
    }
    let now = inbox.outbox.now();
    let Some(until) = now.checked_sub_signed(patience) else { return Ok(()) };
    if mark.checked_until > now {
        // The clock was set back: what is sent from now on lies behind the mark.
        return with_tx(&inbox.outbox.tx, move |unit, _| {
            Box::pin(async move { unit.outbox().set_checked_until(name, until).await })
        })
        .await;
    }
    if until <= mark.checked_until {
        return Ok(());
    }
    let types = inbox.bound.takes;
    let mut view = inbox.outbox.view().await?;
    let lost =
        view.outbox_view().unseen(name, types, mark.after_id, mark.checked_until, until, BATCH).await?;
    drop(view);
    if !lost.is_empty() && planted(Mutant::NoSweepForLost) {
        return Ok(());
    }
    let mut all_settled = true;
    for row in &lost {
        if inbox.outbox.tx.tasks.stopping().is_cancelled() {
            return Ok(());
        }
        warn!(eventId = %row.event_id, traceId = row.trace_id(), consumer = name, queue = inbox.queue(),
            "[{name}] the broker lost a confirmed event; applying it from the outbox");
        all_settled &= take_up(inbox, &row.event_id).await? != TakenUp::Refused;
    }
    if all_settled && lost.len() < BATCH as usize {
        with_tx(&inbox.outbox.tx, move |unit, _| {
            Box::pin(async move { unit.outbox().set_checked_until(name, until).await })
        })
        .await?;
    }
    Ok(())
}

/// What became of an event without a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakenUp {
    /// The log says it.
    Known,
    /// Somebody else keeps a lock that it needs; the log knows of it.
    Postponed,
    /// The store refuses it.
    Refused,
}

/// Runs one event without a delivery. Only an outage ends the sweep: one event that the store refuses, or that waits for
/// a lock, must not keep the others waiting.
async fn take_up(inbox: &Inbox, event: &EventId) -> Result<TakenUp, StoreError> {
    let mut counted = None;
    loop {
        let begun = inbox.outbox.now();
        match inbox.apply_alone(event, CountFirst::Yes, &mut counted).await {
            Ok(_) => return Ok(TakenUp::Known),
            Err(StoreError::Transient(error))
                if (inbox.outbox.now() - begun).to_std().is_ok_and(|took| took >= LOCK_PATIENCE) =>
            {
                debug!(%error, eventId = %event, consumer = inbox.name(), "[{}] waited for a lock", inbox.name());
                inbox.postpone(event, counted.as_ref()).await?;
                return Ok(TakenUp::Postponed);
            }
            // With the count in hand: an outage in the middle of an attempt is not another attempt.
            Err(error) if error.is_outage() => {
                warn!(%error, consumer = inbox.name(), "[{}] the store failed; the sweep pauses", inbox.name());
                tokio::select! {
                    biased;
                    () = inbox.outbox.tx.tasks.stopping().cancelled() => return Err(error),
                    () = inbox.outbox.tx.clock.sleep(OUTAGE_PAUSE) => {}
                }
            }
            Err(error) => {
                error!(%error, eventId = %event, consumer = inbox.name(), queue = inbox.queue(),
                    "[{}] [ALERT] the store refuses an event", inbox.name());
                return Ok(TakenUp::Refused);
            }
        }
    }
}

/// Whether the queue still holds messages; a broker that does not answer may hold any.
async fn queued(inbox: &Inbox) -> bool {
    match answered(inbox.outbox.broker.queues()).await {
        Ok(queues) => queues.iter().any(|queue| queue.name == inbox.queue() && queue.ready > 0),
        Err(_) => true,
    }
}
