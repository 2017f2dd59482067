//! The three steps of a replay, for letters that take them together.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::ConsumeStatus;
use tracing::{info, warn};

use super::Ready;
use crate::consumers::to_be_tried;
use crate::mutants::{Mutant, planted};
use crate::operations::done_before;
use crate::operations::letters::{Refused, UNDECIDED, decided};
use crate::ports::{AuditEntry, Changed, DeadLetterStatus, Decision, OutboxUnit, PublishOutcome, StoreError};
use crate::relay::outgoing_to;
use crate::{Attempt, Outbox, with_tx};

/// How long the confirms of a batch are waited for.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);

impl Ready {
    fn decision(&self, from: &[DeadLetterStatus], to: DeadLetterStatus, at: DateTime<Utc>) -> Decision {
        let (queue, key) = (self.queue.clone(), self.key.clone());
        Decision { queue, key, from: from.to_vec(), to, note: None, at }
    }

    fn refused(&self, why: impl Into<String>) -> Refused {
        Refused { queue: self.queue.clone(), key: self.key.clone(), why: why.into() }
    }
}

/// Letters that take the three steps together.
pub(super) struct Batch {
    pub(super) letters: Vec<Ready>,
    pub(super) entry: AuditEntry,
}

/// What became of a batch.
#[derive(Default)]
pub(super) struct BatchEnd {
    pub(super) replayed: u64,
    pub(super) refused: Vec<Refused>,
    /// The broker did not answer for it.
    pub(super) is_away: bool,
}

/// How the first step ended for one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// It is to be published.
    OnItsWay,
    /// Its event was applied: there is nothing to publish.
    Applied,
    /// Somebody else decided about it.
    Decided(&'static str),
}

impl Batch {
    /// An error means that nothing was begun.
    pub(super) async fn run(self, outbox: &Outbox) -> Result<BatchEnd, StoreError> {
        let batch = Arc::new(self);
        let begun = batch.begin(outbox).await?;
        let mut end = BatchEnd::default();
        let mut on_their_way = Vec::new();
        for (letter, begun) in batch.letters.iter().zip(begun) {
            match begun {
                Begun::OnItsWay => on_their_way.push(letter),
                Begun::Applied => end.replayed += 1,
                Begun::Decided(why) => end.refused.push(letter.refused(why)),
            }
        }
        let confirmed = publish(outbox, &on_their_way, &mut end).await;
        finish(outbox, confirmed, &mut end).await;
        Ok(end)
    }

    async fn begin(self: &Arc<Self>, outbox: &Outbox) -> Result<Vec<Begun>, StoreError> {
        let batch = Arc::clone(self);
        with_tx(&outbox.tx, move |unit, attempt| {
            let batch = Arc::clone(&batch);
            Box::pin(async move { batch.begin_in(unit.outbox(), attempt).await })
        })
        .await
    }

    async fn begin_in(&self, unit: &mut dyn OutboxUnit, attempt: Attempt) -> Result<Vec<Begun>, StoreError> {
        let at = self.entry.at;
        let earlier = done_before(unit, attempt, &self.entry).await?;
        let (mut begun, mut records, mut changed) = (Vec::with_capacity(self.letters.len()), Vec::new(), 0);
        for letter in &self.letters {
            // The letter before the log: who gives the event up once more writes both, and either is waited for here or
            // opens the letter again.
            let note = self.entry.reason.clone();
            let decision = Decision { note, ..letter.decision(&UNDECIDED, DeadLetterStatus::Replaying, at) };
            if unit.decide(&decision).await? == Changed::None {
                begun.push(decided_meanwhile(unit, letter, at).await?);
                continue;
            }
            changed += 1;
            let record = unit.consumption(letter.consumer, &letter.event.event_id).await?;
            let status = record.as_ref().map(|record| record.status);
            if status == Some(ConsumeStatus::Success) || planted(Mutant::ReplayClosesLetterFirst) {
                let closing = letter.decision(&[DeadLetterStatus::Replaying], DeadLetterStatus::Replayed, at);
                let (Changed::One | Changed::None) = unit.decide(&closing).await?;
            }
            match status {
                Some(ConsumeStatus::Success) => begun.push(Begun::Applied),
                Some(ConsumeStatus::Dead) if planted(Mutant::ReplayLeavesLogDead) => {
                    begun.push(Begun::OnItsWay)
                }
                Some(ConsumeStatus::Dead) | None => {
                    records.push(to_be_tried(letter.consumer, &letter.event, record.as_ref(), at));
                    begun.push(Begun::OnItsWay);
                }
                Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) => {
                    begun.push(Begun::OnItsWay);
                }
            }
        }
        if !records.is_empty() {
            unit.record(&records).await?;
        }
        if earlier.is_none() {
            unit.audit(&AuditEntry { changed, ..self.entry.clone() }).await?;
        }
        Ok(begun)
    }
}

/// What somebody decided about a letter before this unit could, or an earlier attempt at it did.
async fn decided_meanwhile(
    unit: &mut dyn OutboxUnit,
    letter: &Ready,
    at: DateTime<Utc>,
) -> Result<Begun, StoreError> {
    let now = unit.dead_letter(&letter.queue, &letter.key).await?;
    Ok(match now {
        Some(now) if now.status == DeadLetterStatus::Replayed && now.decided_at == Some(at) => Begun::Applied,
        Some(now) => Begun::Decided(decided(now.status).unwrap_or("somebody else decides about it")),
        None => Begun::Decided("it is gone"),
    })
}

/// Publishes each to its queue; tells which of them the broker confirmed.
async fn publish<'a>(outbox: &Outbox, letters: &[&'a Ready], end: &mut BatchEnd) -> Vec<&'a Ready> {
    const AGAIN: &str =
        "the broker did not confirm it; replay it again, or wait: its consumer comes back for it";
    let (mut window, mut published) = (Vec::with_capacity(letters.len()), Vec::with_capacity(letters.len()));
    for letter in letters {
        match outgoing_to(&letter.queue, &letter.event) {
            Ok(outgoing) => {
                window.push(outgoing);
                published.push(*letter);
            }
            Err(why) => end.refused.push(letter.refused(format!("it cannot be sent: {why}"))),
        }
    }
    if window.is_empty() {
        return Vec::new();
    }
    let outcomes = match tokio::time::timeout(CONFIRM_TIMEOUT, outbox.broker.publish(window)).await {
        Ok(Ok(outcomes)) => outcomes,
        Ok(Err(error)) => {
            warn!(%error, "[DeadLetters] the broker did not take a replay");
            end.is_away = true;
            end.refused.extend(published.iter().map(|letter| letter.refused(AGAIN)));
            return Vec::new();
        }
        Err(_) => {
            warn!("[DeadLetters] the broker did not confirm a replay within {CONFIRM_TIMEOUT:?}");
            end.is_away = true;
            end.refused.extend(published.iter().map(|letter| letter.refused(AGAIN)));
            return Vec::new();
        }
    };
    let mut confirmed = Vec::with_capacity(published.len());
    for (letter, outcome) in published.into_iter().zip(outcomes) {
        let (reason, why) = match outcome {
            PublishOutcome::Confirmed(_) => {
                confirmed.push(letter);
                continue;
            }
            PublishOutcome::Returned { reason, .. } => {
                (reason, "its queue is not there; its consumer makes it anew")
            }
            PublishOutcome::Nacked { reason, .. } | PublishOutcome::Unknown { reason, .. } => (reason, AGAIN),
        };
        warn!(eventId = %letter.event.event_id, traceId = letter.event.trace_id(), queue = letter.queue, reason,
            "[DeadLetters] a replay was not confirmed");
        end.refused.push(letter.refused(why));
    }
    confirmed
}

/// Closes the letters that were confirmed. One that has died again meanwhile stays open.
async fn finish(outbox: &Outbox, confirmed: Vec<&Ready>, end: &mut BatchEnd) {
    if confirmed.is_empty() {
        return;
    }
    let (letters, at): (Arc<Vec<Ready>>, _) =
        (Arc::new(confirmed.into_iter().cloned().collect()), outbox.now());
    let job = Arc::clone(&letters);
    let closed = with_tx(&outbox.tx, move |unit, _| {
        let job = Arc::clone(&job);
        Box::pin(async move {
            let mut refusals = Vec::with_capacity(job.len());
            for letter in job.iter() {
                refusals.push(close(unit.outbox(), letter, at).await?);
            }
            Ok::<_, StoreError>(refusals)
        })
    })
    .await;
    let refusals = closed.unwrap_or_else(|error| {
        warn!(%error, "[DeadLetters] {} replays were confirmed and are not closed", letters.len());
        let why = "it is back at its consumer, and could not be closed; replay it again to close it";
        letters.iter().map(|_| Some(why.to_owned())).collect()
    });
    for (letter, refusal) in letters.iter().zip(refusals) {
        match refusal {
            None => {
                info!(eventId = %letter.event.event_id, eventType = %letter.event.event_type,
                    traceId = letter.event.trace_id(), queue = letter.queue, consumer = letter.consumer,
                    "[DeadLetters] a dead letter is back at its consumer");
                end.replayed += 1;
            }
            Some(why) => end.refused.push(letter.refused(why)),
        }
    }
}

/// Closes one letter; tells why not, if it could not.
async fn close(
    unit: &mut dyn OutboxUnit,
    letter: &Ready,
    at: DateTime<Utc>,
) -> Result<Option<String>, StoreError> {
    let decision = letter.decision(&[DeadLetterStatus::Replaying], DeadLetterStatus::Replayed, at);
    if unit.decide(&decision).await? == Changed::One {
        return Ok(None);
    }
    let now = unit.dead_letter(&letter.queue, &letter.key).await?;
    Ok(match now.map(|now| (now.status, now.reason)) {
        // By another replay, or an attempt at this unit whose outcome was not known.
        Some((DeadLetterStatus::Replayed, _)) => None,
        Some((DeadLetterStatus::Open, reason)) => Some(format!("it died again: {reason}")),
        Some((DeadLetterStatus::Replaying, _)) => Some("somebody else replays it".to_owned()),
        Some((DeadLetterStatus::Discarded, _)) => Some("it was discarded meanwhile".to_owned()),
        None => Some("it is gone".to_owned()),
    })
}
