//! What became of replayed dead letters.

use std::collections::BTreeMap;

use handover_events::{ConsumeStatus, EventId};

use crate::operations::OperationError;
use crate::outbox::Outbox;
use crate::ports::Consumed;

/// A replayed dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentDeadLetter {
    /// Queue at which the message was dead-lettered.
    pub queue: String,
    /// The consumer of the queue.
    pub consumer: String,
    /// The event.
    pub event: EventId,
}

/// State of a replayed dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayState {
    /// The consumer applied the event.
    Applied,
    /// The consumer failed permanently again.
    Dead,
    /// The consumer has not finished the event: no process has received it yet, or an attempt runs or follows.
    Queued,
}

/// What became of a replayed dead letter so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayResult {
    /// The dead letter.
    pub sent: SentDeadLetter,
    /// Its state.
    pub state: ReplayState,
    /// Result or error of the consumer.
    pub detail: Option<String>,
}

/// Reads what became of these dead letters so far.
pub async fn replay_results(
    outbox: &Outbox,
    sent: &[SentDeadLetter],
) -> Result<Vec<ReplayResult>, OperationError> {
    let ids: Vec<EventId> = sent.iter().map(|sent| sent.event.clone()).collect();
    let consumed = outbox.view().await?.outbox_view().consumed_of(&ids).await?;
    let records: BTreeMap<(&str, &EventId), &Consumed> =
        consumed.iter().map(|record| ((record.consumer.as_str(), &record.event_id), record)).collect();
    let result = |sent: &SentDeadLetter| {
        let record = records.get(&(sent.consumer.as_str(), &sent.event));
        let (state, detail) = match record.map(|record| record.record.status) {
            Some(ConsumeStatus::Success) => {
                (ReplayState::Applied, record.and_then(|record| record.consume_result.clone()))
            }
            Some(ConsumeStatus::Dead) => (ReplayState::Dead, error_of(record.copied())),
            Some(ConsumeStatus::Failed | ConsumeStatus::Processing | ConsumeStatus::Waiting) | None => {
                // Before the first attempt, the record has the error for which the event was dead-lettered.
                let attempted = record.copied().filter(|record| record.record.attempts > 0);
                (ReplayState::Queued, error_of(attempted))
            }
        };
        ReplayResult { sent: sent.clone(), state, detail }
    };
    Ok(sent.iter().map(result).collect())
}

fn error_of(record: Option<&Consumed>) -> Option<String> {
    record.and_then(|record| record.record.error_message.clone())
}
