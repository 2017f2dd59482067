//! Dead letters and the audit log.

use handover_events::{ConsumeStatus, EventId};
use handover_outbox::ports::{
    AuditEntry, AuditRepoWrapper, Changed, Consumed, DeadLetter, DeadLetterRepoWrapper, DeadLetterStatus,
    Decision, StoreError,
};
use marketplace::ports::MarketUnit;

use super::super::{Faulty, Unit};
use crate::machines::NOTHING;

impl AuditRepoWrapper for Unit {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.inner.outbox().audit(entry).await?;
        self.writes.audited = true;
        Ok(())
    }
}

impl DeadLetterRepoWrapper for Unit {
    async fn park(&mut self, dead_letters: &[DeadLetter]) -> Result<(), StoreError> {
        for dead_letter in dead_letters {
            self.check_parked(dead_letter).await?;
        }
        self.inner.outbox().park(dead_letters).await
    }

    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError> {
        let before = self.inner.outbox().dead_letter(&decision.queue, &decision.key).await?;
        let changed = self.inner.outbox().decide(decision).await?;
        if let (Changed::One, Some(before)) = (changed, before) {
            self.decided(decision, before.status).await?;
        }
        Ok(changed)
    }
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    async fn check_parked(&mut self, dead_letter: &DeadLetter) -> Result<(), StoreError> {
        let before = self.inner.outbox().dead_letter(&dead_letter.queue, &dead_letter.key).await?;
        let from = before.map_or(NOTHING, |before| before.status.as_str());
        if from != DeadLetterStatus::Open.as_str() {
            let what = || format!("dead letter {} at {}", dead_letter.key, dead_letter.queue);
            self.transition(("dead letter", from, DeadLetterStatus::Open.as_str()), what);
        }
        Ok(())
    }

    async fn decided(&mut self, decision: &Decision, from: DeadLetterStatus) -> Result<(), StoreError> {
        self.writes.begins_replay |= decision.to == DeadLetterStatus::Replaying;
        self.writes.by_operator |= decision.to == DeadLetterStatus::Discarded;
        if decision.to == DeadLetterStatus::Replayed {
            self.check_replayed(decision).await?;
        }
        let what = || format!("dead letter {} at {}", decision.key, decision.queue);
        self.transition(("dead letter", from.as_str(), decision.to.as_str()), what);
        Ok(())
    }

    /// A dead letter may become REPLAYED only if its message was published to the queue again, or its event was
    /// applied.
    async fn check_replayed(&mut self, decision: &Decision) -> Result<(), StoreError> {
        let Ok(event) = decision.key.parse::<EventId>() else { return Ok(()) };
        let replay = (decision.queue.clone(), event.clone());
        if self.process.faults.observed(|observed| observed.replayed.contains(&replay)) {
            return Ok(());
        }
        let consumed = self.inner.outbox().consumed_of(std::slice::from_ref(&event)).await?;
        let Some(subscribed) = self.process.consumers.get(decision.queue.as_str()) else { return Ok(()) };
        let consumer = &subscribed.consumer;
        let applied = |it: &Consumed| it.consumer == *consumer && it.record.status == ConsumeStatus::Success;
        if !consumed.iter().any(applied) {
            let violation =
                format!("dead letter {event} at {consumer} is REPLAYED, but its message was not published");
            self.writes.violations.push(violation);
        }
        Ok(())
    }
}
