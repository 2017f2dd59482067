//! Replay: sends dead letters to their consumers again.
//!
//! A replay has three steps; the process may end after any of them:
//! 1. In one unit of work, the dead letter becomes `REPLAYING` and its event retryable in the consume log, with no
//!    counted attempt.
//! 2. The event is published from its outbox row, only to the queue at which its message was dead-lettered.
//! 3. After the broker's confirm, the dead letter becomes `REPLAYED`.
//!
//! **Invariant:** from the first step on the consume log contains the event, so the consumer applies the event once,
//! even if the message is lost or duplicated. A dead letter becomes `REPLAYED` only after a confirm, or if its event
//! was already applied.

mod batch;
mod results;

use std::collections::BTreeMap;

use handover_events::EventId;
use tracing::warn;

use super::dead_letter_selection::{DeadLetterSelection, Refused, already_decided};
use super::{Action, ActionUnit, OperationError, Operator, Reason, common_tenant, count};
use crate::consumers::broker_timeout;
use crate::message::outgoing_to;
use crate::outbox::Outbox;
use crate::ports::{AuditEntry, DeadLetter, OutboxRow, StoreError};
pub use results::{ReplayResult, ReplayState, SentDeadLetter, replay_results};

use batch::{Batch, BatchOutcome, Ready};

/// Maximum number of dead letters per batch.
const BATCH: usize = 100;

/// Command: the dead letters to replay, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayDeadLetters {
    /// Selected dead letters.
    pub selection: DeadLetterSelection,
    /// Whether to report only what would happen.
    pub dry_run: bool,
    /// Reason, if the operator gave one.
    pub reason: Option<Reason>,
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Number of selected dead letters, up to the limit of one call.
    pub matched: u64,
    /// Number of replayed dead letters; 0 in a dry run.
    pub replayed: u64,
    /// The replayed dead letters.
    pub sent: Vec<SentDeadLetter>,
    /// Dead letters that were not replayed; in a dry run, those that would not be replayed.
    pub refused: Vec<Refused>,
    /// Requested keys that do not exist or that belong to another tenant.
    pub not_found: Vec<String>,
    /// Whether dead letters remain: the filter matches further ones, or the call was interrupted.
    pub more: bool,
}

/// Replays dead letters: each is sent only to the consumer at which it was dead-lettered, and its attempts are counted
/// from 0. A dead letter whose event was already applied is only closed. A dead letter that the broker does not
/// confirm stays `REPLAYING` and can be replayed again.
pub async fn replay_dead_letters(
    outbox: &Outbox,
    operator: &Operator,
    command: ReplayDeadLetters,
) -> Result<Replayed, OperationError> {
    let selected = command.selection.select(outbox, operator).await?;
    let tenant = common_tenant(selected.dead_letters.iter().map(|dead_letter| dead_letter.tenant))
        .or(command.selection.tenant());
    let (ready, refused) = classify(outbox, &selected.dead_letters).await?;
    let mut replayed = Replayed {
        dry_run: command.dry_run,
        matched: selected.dead_letters.len() as u64,
        replayed: 0,
        sent: Vec::new(),
        refused,
        not_found: selected.missing,
        more: selected.more,
    };
    let action = Action {
        name: "dead-letters.replay",
        selection: command.selection.selection(),
        reason: command.reason,
    };
    if command.dry_run {
        action.dry_run().record(&outbox.tx, operator, tenant, replayed.matched).await?;
        return Ok(replayed);
    }
    if ready.is_empty() {
        action.record(&outbox.tx, operator, tenant, replayed.matched).await?;
        return Ok(replayed);
    }
    // If the broker is unreachable, the call fails here, before any dead letter is changed.
    broker_timeout(outbox.broker.queues()).await?;
    let ready = ready.into_iter().map(|dead_letter| (dead_letter.event.aggregate.tenant, dead_letter));
    let units = action.units(operator, ready, BATCH, outbox.now());
    let parts = units.len();
    for (part, ActionUnit { rows: dead_letters, entry }) in units.into_iter().enumerate() {
        let batch = Batch { dead_letters, entry: AuditEntry { at: outbox.now(), ..entry } };
        let task = outbox.clone();
        let last = part + 1 == parts;
        // The batch runs in a separate task, so that a cancelled caller cannot interrupt it between its steps.
        let ended = match outbox.spawn(async move { batch.run(&task).await }).await {
            Ok(Some(ended)) => ended,
            Ok(None) => Err(StoreError::Unavailable("the process is shutting down".into())),
            Err(panic) => Err(StoreError::Backend(Box::new(panic))),
        };
        match ended {
            Ok(BatchOutcome { sent, refused, broker_unreachable }) => {
                replayed.replayed += count(sent.len());
                replayed.sent.extend(sent);
                replayed.refused.extend(refused);
                if broker_unreachable && !last {
                    replayed.more = true;
                    break;
                }
            }
            Err(error) if part > 0 => {
                warn!(code = "dead-letters.replay-interrupted", %error, replayed = replayed.replayed, "replay interrupted; repeat it to continue");
                replayed.more = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(replayed)
}

/// Divides dead letters into those that can be replayed, ordered by outbox id, and those that cannot, with the reason.
async fn classify(
    outbox: &Outbox,
    dead_letters: &[DeadLetter],
) -> Result<(Vec<Ready>, Vec<Refused>), StoreError> {
    let ids: Vec<EventId> =
        dead_letters.iter().filter_map(|dead_letter| dead_letter.key.parse().ok()).collect();
    let rows = outbox.view().await?.outbox_view().outbox_by_event(&ids).await?;
    let rows: BTreeMap<&str, &OutboxRow> = rows.iter().map(|row| (row.event_id.as_str(), row)).collect();
    let mut ready = Vec::new();
    let mut refused = Vec::new();
    for dead_letter in dead_letters {
        let queue = dead_letter.queue.clone();
        let key = dead_letter.key.clone();
        match check_replayable(outbox, dead_letter, rows.get(key.as_str()).copied()) {
            Ok((event, consumer)) => ready.push(Ready {
                queue,
                key,
                consumer: consumer.to_owned(),
                event: event.clone(),
                reason: dead_letter.reason.clone(),
                died_at: dead_letter.died_at,
            }),
            Err(why) => refused.push(Refused { queue, key, why }),
        }
    }
    ready.sort_by_key(|dead_letter| dead_letter.event.id);
    Ok((ready, refused))
}

fn check_replayable<'a>(
    outbox: &'a Outbox,
    dead_letter: &DeadLetter,
    event: Option<&'a OutboxRow>,
) -> Result<(&'a OutboxRow, &'a str), String> {
    if let Some(why) = already_decided(dead_letter.status) {
        return Err(why.to_owned());
    }
    let queue = &dead_letter.queue;
    let event = event.ok_or_else(|| match outbox.receives_from(queue) {
        Some(exchange) => format!(
            "the message was not received, so this outbox has no event to send: redrive the event in the service that publishes to \
             {exchange}, then discard the dead letter"
        ),
        None => "the message is not an event of this outbox: discard it".to_owned(),
    })?;
    let consumer =
        outbox.consumer_of(queue).ok_or_else(|| format!("no consumer is registered for queue {queue}"))?;
    outgoing_to(&outbox.registry, queue, event)
        .map_err(|why| format!("the event cannot be published: {why}"))?;
    Ok((event, consumer))
}
