//! Faults of erasures.

use handover_outbox::ports::*;

use super::super::{Fault, Unit, Wraps};

impl ErasureRepoWrapper for Unit {
    async fn erase_events(&mut self, events: &[MaskedTexts], erasure: &Erasure) -> Result<u64, StoreError> {
        if self.has(Fault::ErasureIsWrittenOutsideUnit) {
            let mut own = self.shared.inner.begin().await?;
            let changed = own.outbox().erase_events(events, erasure).await?;
            own.commit().await?;
            return Ok(changed);
        }
        if self.has(Fault::ErasureMasksOpenDeadLetters) {
            for texts in events {
                for (queue, _) in &texts.dead_letters {
                    let decision = Decision {
                        queue: queue.clone(),
                        key: texts.event_id.to_string(),
                        from: vec![DeadLetterStatus::Open],
                        to: DeadLetterStatus::Discarded,
                        note: None,
                        at: erasure.at,
                    };
                    let _: Changed = self.inner().outbox().decide(&decision).await?;
                }
            }
        }
        let mut erasure = erasure.clone();
        if self.has(Fault::ErasureReasonIsLost) {
            erasure.reason.clear();
        }
        let changed = self.inner().outbox().erase_events(events, &erasure).await?;
        Ok(if self.has(Fault::ErasureCountsUnchangedRows) { changed.max(1) } else { changed })
    }

    async fn erase_audit_reasons(&mut self, entries: &[i64]) -> Result<u64, StoreError> {
        if self.has(Fault::ReasonsAreNotErased) {
            return Ok(0);
        }
        self.inner().outbox().erase_audit_reasons(entries).await
    }
}
