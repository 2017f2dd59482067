//! Dead letters, and the audit log of what operators do with them.

use handover_events::{ConsumeStatus, EventId};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::{Faulty, passes_on};
use crate::machines::NOTHING;

passes_on! { impl AuditRepo of inner_outbox for MarketUnit {
    fn audit(entry: &AuditEntry) -> (),
        then |unit, _done| unit.wrote.audited = true;
} }
passes_on! { impl DeadLetterRepo of inner_outbox for MarketUnit {
    fn park(letters: &[DeadLetter]) -> (),
        first |unit| () = {
            for letter in letters {
                unit.check_parked(letter).await?;
            }
        };
    fn decide(decision: &Decision) -> Changed,
        first |unit| before = unit.inner.outbox().dead_letter(&decision.queue, &decision.key).await?,
        then |unit, changed| {
            if let (Changed::One, Some(before)) = (*changed, before) {
                unit.decided(decision, before.status).await?;
            }
        };
} }

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
