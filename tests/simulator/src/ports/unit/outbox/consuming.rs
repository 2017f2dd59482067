//! Checks consume-log records: each attempt is counted once, and each retry has the correct backoff.

use handover_events::ConsumeStatus;
use handover_outbox::ports::{ConsumeLogWrapper, Consumption, Expected, StoreError};
use handover_outbox::webhooks::DeliveryWriter;

use super::super::{Faulty, Unit};
use crate::machines::NOTHING;
use crate::ports::webhook_writes::AppliedEvent;
use crate::run_settings::consumer_backoff;

impl ConsumeLogWrapper for Unit {
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        self.inner.outbox().record(consumptions).await?;
        consumptions.iter().for_each(|it| self.recorded(it));
        Ok(())
    }
}

impl<I: ?Sized> Faulty<I> {
    fn recorded(&mut self, it: &Consumption) {
        let (from, before) = match it.expected {
            Expected::Absent => (NOTHING, 0),
            Expected::At(status, attempts) => (status.as_str(), attempts),
        };
        let what = || format!("{} {} at {}", it.event_type, it.event_id, it.consumer);
        let due = it.next_retry_time.map(|due| (due - it.consume_time).to_std().unwrap_or_default());
        // The event was due, but another transaction held its lock: no attempt is counted.
        let is_postponed = from == ConsumeStatus::Failed.as_str()
            && it.attempts == before
            && due.is_none_or(|due| due.is_zero());
        // The breaker opened and took the attempt back.
        let is_taken_back = from == ConsumeStatus::Failed.as_str() && it.attempts + 1 == before;
        let failed = (it.status == ConsumeStatus::Failed && !is_postponed && !is_taken_back).then_some(from);
        let counted = match failed {
            Some("PROCESSING") => before,
            Some("DEAD") => 0,
            Some(_) => before + 1,
            None => it.attempts,
        };
        let backoff = consumer_backoff(it.attempts);
        if failed.is_some_and(|from| from != "DEAD") && due.is_none_or(|due| due < backoff) {
            let violation = format!(
                "{}: backoff after {} attempts is {due:?}, expected at least {backoff:?}",
                what(),
                it.attempts
            );
            self.writes.violations.push(violation);
        }
        if it.attempts != counted {
            let violation =
                format!("{}: attempts went from {before} to {}, expected {counted}", what(), it.attempts);
            self.writes.violations.push(violation);
        }
        if it.status == ConsumeStatus::Waiting {
            self.cover("event waiting for an earlier event");
        }
        self.writes.counts_attempt |= it.status == ConsumeStatus::Processing;
        self.writes.records_failure |= failed.is_some() || it.status == ConsumeStatus::Dead;
        if it.status == ConsumeStatus::Dead {
            self.writes.failed_or_dead.push(it.event_id.clone());
        }
        if it.status == ConsumeStatus::Success {
            self.writes.record_applied(&it.consumer, &it.event_id);
            if it.consumer == DeliveryWriter::NAME {
                self.writes.webhooks.applied.push(AppliedEvent {
                    event: it.event_id.clone(),
                    event_type: it.event_type.clone(),
                    aggregate: it.aggregate.clone(),
                });
            }
        }
        self.transition(("consume-log record", from, it.status.as_str()), what);
    }
}
