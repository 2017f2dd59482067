//! Dead letters, and the audit log of what operators do with them.

use handover_events::{ConsumeStatus, EventId};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::{Faulty, Unit};
use crate::machines::NOTHING;

impl AuditRepoWrapper for Unit {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.inner.outbox().audit(entry).await?;
        self.wrote.audited = true;
        Ok(())
    }
}

impl DeadLetterRepoWrapper for Unit {
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        for letter in letters {
            self.check_parked(letter).await?;
        }
        self.inner.outbox().park(letters).await
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
    async fn check_parked(&mut self, letter: &DeadLetter) -> Result<(), StoreError> {
        let before = self.inner.outbox().dead_letter(&letter.queue, &letter.key).await?;
        let from = before.map_or(NOTHING, |before| before.status.as_str());
        if from != DeadLetterStatus::Open.as_str() {
            let what = || format!("dead letter {} at {}", letter.key, letter.queue);
            self.step(("a dead letter", from, DeadLetterStatus::Open.as_str()), what);
        }
        Ok(())
    }

    async fn decided(&mut self, decision: &Decision, from: DeadLetterStatus) -> Result<(), StoreError> {
        self.wrote.replays |= decision.to == DeadLetterStatus::Replaying;
        self.wrote.by_operator |= decision.to == DeadLetterStatus::Discarded;
        if decision.to == DeadLetterStatus::Replayed {
            self.check_replayed(decision).await?;
        }
        let what = || format!("dead letter {} at {}", decision.key, decision.queue);
        self.step(("a dead letter", from.as_str(), decision.to.as_str()), what);
        Ok(())
    }

    /// A letter is replayed only when its event is back at its consumer, or has had its effect.
    async fn check_replayed(&mut self, decision: &Decision) -> Result<(), StoreError> {
        let Ok(event) = decision.key.parse::<EventId>() else { return Ok(()) };
        let back = (decision.queue.clone(), event.clone());
        if self.process.faults.seen(|seen| seen.sent_back.contains(&back)) {
            return Ok(());
        }
        let consumed = self.inner.outbox().consumed_of(std::slice::from_ref(&event)).await?;
        let Some(consumer) = self.process.consumers.get(decision.queue.as_str()) else { return Ok(()) };
        let applied = |it: &Consumed| it.consumer == *consumer && it.record.status == ConsumeStatus::Success;
        if !consumed.iter().any(applied) {
            let broken = format!("the letter {event} at {consumer} is closed, and it is not back there");
            self.wrote.broken.push(broken);
        }
        Ok(())
    }
}
