//! Applies one event that has no delivery, from its outbox row.

use std::time::Duration;

use handover_events::EventId;
use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::attempt::Attempts;
use super::event_processor::{EventProcessor, LOCK_WAIT_LIMIT};
use super::outage::outage;
use super::outcome::SingleOutcome;
use super::single::{CountFirst, SingleEvents};
use crate::event_line::event_line;
use crate::ports::{OutboxRow, StoreError};

/// Pause before the next attempt during an outage of the database.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Time after which no further event of one aggregate is applied in a row: events of other aggregates would wait for them all.
pub(super) const LONGEST_RUN: Duration = Duration::from_secs(3);

/// Result for an event without a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepOutcome {
    /// The consume log contains the result.
    Recorded,
    /// Another transaction holds a lock that the event needs, or the handler meets an outage that the consume log does not; it has
    /// a record of the event.
    Postponed,
    /// The store rejects the event.
    Rejected,
    /// The breaker of the consumer is open: the event may have no record, and no other event can be applied either.
    Paused,
}

/// Applies one event without a delivery, then those that wait for it, up to the time `until`; retries during an outage of the
/// database. An event that the store rejects, or that waits for a lock, must not block the others, so it does not end the sweep.
pub(super) async fn apply_event(
    processor: &EventProcessor,
    event: &EventId,
    row: Option<&OutboxRow>,
    until: Instant,
) -> Result<SweepOutcome, StoreError> {
    let mut counted = None;
    loop {
        let started_at = processor.outbox.now();
        match SingleEvents::until(processor, until).apply(event, CountFirst::Yes, &mut counted).await {
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
            Err(error) if error.is_outage() => {
                // An effect outside the database is recorded as soon as possible, so that it is not repeated.
                let has_effect = counted.as_ref().is_some_and(|counted| counted.effect.is_some());
                if !has_effect && Attempts::of(processor).postpone(event, counted.as_ref()).await.is_ok() {
                    // Only this event meets the outage, for example because its handler uses another database.
                    warn!(code = "consumer.event.postponed", %error, eventId = %event, consumer = processor.name(), "[{}] {}; a later sweep applies the event", processor.name(), outage(&error));
                    return Ok(SweepOutcome::Postponed);
                }
                // `counted` is kept: an outage during an attempt does not count as another attempt.
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
