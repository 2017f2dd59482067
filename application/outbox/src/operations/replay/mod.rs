//! An operator sends dead letters back to the consumers they died at.
//!
//! Three steps, each of which may be the last one before the process ends. First, in one unit: the letter is
//! `REPLAYING`, and the consume log has the event to be tried anew, with no attempt counted. Then the event, as its
//! outbox row has it, goes to that consumer's queue alone. Last, once the broker confirmed it: the letter is `REPLAYED`.
//!
//! **Invariant:** from the first step on the consume log keeps the event, so whatever the message does, the consumer
//! applies it once; a letter is `REPLAYED` only after a confirm, or when there is nothing left to do.

mod batch;

use std::collections::BTreeMap;

use handover_events::EventId;
use tracing::warn;

use super::letters::{Letters, Refused, decided};
use super::{Action, ActionUnit, OperationError, Operator, Reason, only};
use crate::Outbox;
use crate::consumers::answered;
use crate::ports::{AuditEntry, DeadLetter, OutboxRow, StoreError};
use crate::relay::outgoing_to;
use batch::{Batch, BatchEnd};

/// How many letters go through the three steps together.
const BATCH: usize = 100;

/// Which letters are sent back, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayLetters {
    /// Which.
    pub letters: Letters,
    /// Whether it is only looked what would happen.
    pub dry_run: bool,
    /// Why.
    pub reason: Option<Reason>,
}

/// What became of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Whether it was only looked what would happen.
    pub dry_run: bool,
    /// How many letters were chosen, as far as one call goes.
    pub matched: u64,
    /// How many of them are back at their consumers; none in a dry run.
    pub replayed: u64,
    /// Those that are not, or would not be.
    pub refused: Vec<Refused>,
    /// Keys that were named and are not there, or another tenant's.
    pub not_found: Vec<String>,
    /// Whether the filter chooses further ones.
    pub more: bool,
}

/// Sends dead letters back, each to the consumer it died at and to no other, with its attempts counted anew. One whose
/// event was applied meanwhile is only closed. One that the broker does not confirm stays `REPLAYING` and can be
/// replayed again.
pub async fn replay_dead_letters(
    outbox: &Outbox,
    operator: &Operator,
    command: ReplayLetters,
) -> Result<Replayed, OperationError> {
    let chosen = command.letters.choose(outbox, operator).await?;
    let tenant = only(chosen.letters.iter().map(|letter| letter.tenant)).or(command.letters.tenant());
    let (ready, refused) = judge(outbox, &chosen.letters).await?;
    let mut replayed = Replayed {
        dry_run: command.dry_run,
        matched: chosen.letters.len() as u64,
        replayed: 0,
        refused,
        not_found: chosen.missing,
        more: chosen.more,
    };
    let action = Action {
        name: "dead-letters.replay",
        selection: command.letters.selection(),
        reason: command.reason,
    };
    if command.dry_run {
        action.dry_run().told(outbox, operator, tenant, replayed.matched).await?;
        return Ok(replayed);
    }
    if ready.is_empty() {
        action.told(outbox, operator, tenant, replayed.matched).await?;
        return Ok(replayed);
    }
    // With a broker that is away nothing is begun.
    answered(outbox.broker.queues()).await?;
    let ready = ready.into_iter().map(|letter| (letter.event.aggregate.tenant, letter));
    let units = action.units(operator, ready, BATCH, outbox.now());
    let parts = units.len();
    for (part, ActionUnit { rows: letters, entry }) in units.into_iter().enumerate() {
        let batch = Batch { letters, entry: AuditEntry { at: outbox.now(), ..entry } };
        let (task, last) = (outbox.clone(), part + 1 == parts);
        // As a task of its own: a caller who goes away does not cut it between its steps.
        let ended = match outbox.tx.tasks.spawn(async move { batch.run(&task).await }).await {
            Ok(Some(ended)) => ended,
            Ok(None) => Err(StoreError::Unavailable("the process is ending".into())),
            Err(panic) => Err(StoreError::Backend(Box::new(panic))),
        };
        match ended {
            Ok(BatchEnd { replayed: count, refused, is_away }) => {
                replayed.replayed += count;
                replayed.refused.extend(refused);
                if is_away && !last {
                    replayed.more = true;
                    break;
                }
            }
            Err(error) if part > 0 => {
                warn!(%error, replayed = replayed.replayed, "a replay ends before its time");
                replayed.more = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(replayed)
}

/// A letter that can be sent back.
#[derive(Debug, Clone)]
struct Ready {
    queue: String,
    key: String,
    consumer: &'static str,
    event: OutboxRow,
}

/// Which of the letters can be sent back, in the order in which their events happened, and why the others cannot.
async fn judge(outbox: &Outbox, letters: &[DeadLetter]) -> Result<(Vec<Ready>, Vec<Refused>), StoreError> {
    let ids: Vec<EventId> = letters.iter().filter_map(|letter| letter.key.parse().ok()).collect();
    let rows = outbox.view().await?.outbox_view().outbox_by_event(&ids).await?;
    let rows: BTreeMap<&str, &OutboxRow> = rows.iter().map(|row| (row.event_id.as_str(), row)).collect();
    let (mut ready, mut refused) = (Vec::new(), Vec::new());
    for letter in letters {
        let (queue, key) = (letter.queue.clone(), letter.key.clone());
        match judged(letter, rows.get(key.as_str()).copied(), outbox.consumer_of(&queue)) {
            Ok((event, consumer)) => ready.push(Ready { queue, key, consumer, event: event.clone() }),
            Err(why) => refused.push(Refused { queue, key, why }),
        }
    }
    ready.sort_by_key(|letter| letter.event.id);
    Ok((ready, refused))
}

fn judged<'a>(
    letter: &DeadLetter,
    event: Option<&'a OutboxRow>,
    consumer: Option<&'static str>,
) -> Result<(&'a OutboxRow, &'static str), String> {
    if let Some(why) = decided(letter.status) {
        return Err(why.to_owned());
    }
    let event = event.ok_or("no event of ours: discard it")?;
    let consumer = consumer.ok_or_else(|| format!("no consumer works on {}", letter.queue))?;
    outgoing_to(&letter.queue, event).map_err(|why| format!("it cannot be sent: {why}"))?;
    Ok((event, consumer))
}
