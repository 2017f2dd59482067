//! The consume log: attempts are counted one by one, and rest as long as they should.

use handover_events::ConsumeStatus;
use handover_outbox::ports::*;

use super::{Faulty, Unit};
use crate::machines::NOTHING;
use crate::setting::consumer_rest;

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
        // It was due, and waited for a lock of somebody else: no attempt, and nothing of it changes.
        let is_postponed = from == ConsumeStatus::Failed.as_str()
            && it.attempts == before
            && due.is_none_or(|due| due.is_zero());
        let failed = (it.status == ConsumeStatus::Failed && !is_postponed).then_some(from);
        let counted = match failed {
            Some("PROCESSING") => before,
            Some("DEAD") => 0,
            Some(_) => before + 1,
            None => it.attempts,
        };
        let rest = consumer_rest(it.attempts);
        if failed.is_some_and(|from| from != "DEAD") && due.is_none_or(|due| due < rest) {
            let broken = format!("{} failed {} times and rests for {due:?}", what(), it.attempts);
            self.wrote.broken.push(broken);
        }
        if it.attempts != counted {
            let broken = format!("{}: {before} attempts, one more failed, {} counted", what(), it.attempts);
            self.wrote.broken.push(broken);
        }
        if it.status == ConsumeStatus::Waiting {
            self.cover("an event that waits for an earlier one");
        }
        self.wrote.counts |= it.status == ConsumeStatus::Processing;
        self.wrote.fails |= failed.is_some() || it.status == ConsumeStatus::Dead;
        if it.status == ConsumeStatus::Dead {
            self.wrote.given_up.push(it.event_id.clone());
        }
        if it.status == ConsumeStatus::Success {
            self.wrote.applied.insert((it.consumer.clone(), it.event_id.clone()));
        }
        self.step(("a consumption", from, it.status.as_str()), what);
    }
}
