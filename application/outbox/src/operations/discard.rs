//! Discards dead letters.
//!
//! **Invariant:** one unit of work closes the dead letter and makes its event `DEAD` in the consume log, so that a
//! discarded event has no effect later. An event that was already applied, or is being applied, is not discarded; the
//! result reports this.

use std::collections::BTreeMap;
use std::sync::Arc;

use handover_events::{ConsumeStatus, EventId};
use tracing::warn;

use super::dead_letter_selection::{DeadLetterSelection, Refused, UNDECIDED, already_decided};
use super::{
    Action, ActionUnit, OperationError, Operator, Reason, changed_by_earlier_attempt, common_tenant,
};
use crate::consumers::dead_record;
use crate::outbox::Outbox;
use crate::ports::{
    AuditEntry, ConsumeQueries, ConsumeRecord, DeadLetter, DeadLetterQueries, DeadLetterStatus, Decision,
    OutboxRow, OutboxUnit, StoreError,
};
use crate::transaction::{Attempt, with_tx};

/// Maximum number of dead letters per unit of work.
const UNIT: usize = 500;

/// Reason for closing a dead letter as replayed instead of discarding it.
const APPLIED: &str = "the event was applied";

/// Command: the dead letters to discard, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardDeadLetters {
    /// Selected dead letters.
    pub selection: DeadLetterSelection,
    /// Whether to report only what would happen.
    pub dry_run: bool,
    /// Reason, for the audit log.
    pub reason: Reason,
}

/// Result of a discard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discarded {
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Number of selected dead letters, up to the limit of one call.
    pub matched: u64,
    /// Number of discarded dead letters; 0 in a dry run.
    pub discarded: u64,
    /// Dead letters that were not discarded; in a dry run, those that would not be discarded.
    pub refused: Vec<Refused>,
    /// Requested keys that do not exist or that belong to another tenant.
    pub not_found: Vec<String>,
    /// Whether dead letters remain: the filter matches further ones, or the call was interrupted.
    pub more: bool,
}

/// Discards dead letters: they are closed with the reason and have no effect later. A dead letter whose event was
/// already applied is closed as replayed.
pub async fn discard_dead_letters(
    outbox: &Outbox,
    operator: &Operator,
    command: DiscardDeadLetters,
) -> Result<Discarded, OperationError> {
    let selected = command.selection.select(outbox, operator).await?;
    let mut discarded = Discarded {
        dry_run: command.dry_run,
        matched: selected.dead_letters.len() as u64,
        not_found: selected.missing,
        more: selected.more,
        ..Discarded::default()
    };
    let tenant = common_tenant(selected.dead_letters.iter().map(|dead_letter| dead_letter.tenant))
        .or(command.selection.tenant());
    let candidates = candidates(outbox, selected.dead_letters).await?;
    let action = Action {
        name: "dead-letters.discard",
        selection: command.selection.selection(),
        reason: Some(command.reason),
    };
    if command.dry_run {
        let current = CurrentState::read(outbox.view().await?.outbox_view(), &candidates).await?;
        discarded.refused = candidates
            .iter()
            .filter_map(|candidate| candidate.refused(current.verdict(candidate).why()))
            .collect();
        action.dry_run().record(&outbox.tx, operator, tenant, discarded.matched).await?;
        return Ok(discarded);
    }
    if candidates.is_empty() {
        action.record(&outbox.tx, operator, tenant, 0).await?;
        return Ok(discarded);
    }
    let candidates = candidates.into_iter().map(|candidate| (candidate.dead_letter.tenant, candidate));
    for (part, unit) in action.units(operator, candidates, UNIT, outbox.now()).into_iter().enumerate() {
        let unit = Arc::new(unit);
        match close(outbox, &unit).await {
            Ok(reasons) => {
                discarded.discarded += reasons.iter().filter(|why| why.is_none()).count() as u64;
                let refused =
                    unit.rows.iter().zip(reasons).filter_map(|(candidate, why)| candidate.refused(why));
                discarded.refused.extend(refused);
            }
            Err(error) if part > 0 => {
                warn!(code = "dead-letters.discard-interrupted", %error, discarded = discarded.discarded, "discard interrupted; repeat it to continue");
                discarded.more = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(discarded)
}

struct Candidate {
    dead_letter: DeadLetter,
    /// The consumer at which the message was dead-lettered, and the outbox row; `None` if the message is not an event
    /// of this outbox, or no consumer is registered for its queue.
    event: Option<(String, OutboxRow)>,
}

async fn candidates(outbox: &Outbox, dead_letters: Vec<DeadLetter>) -> Result<Vec<Candidate>, StoreError> {
    let ids: Vec<EventId> =
        dead_letters.iter().filter_map(|dead_letter| dead_letter.key.parse().ok()).collect();
    let rows = outbox.view().await?.outbox_view().outbox_by_event(&ids).await?;
    let rows: BTreeMap<&str, &OutboxRow> = rows.iter().map(|row| (row.event_id.as_str(), row)).collect();
    let candidate = |dead_letter: DeadLetter| {
        let consumer = outbox.consumer_of(&dead_letter.queue).map(str::to_owned);
        let event = rows.get(dead_letter.key.as_str()).map(|row| OutboxRow::clone(row));
        Candidate { event: consumer.zip(event), dead_letter }
    };
    Ok(dead_letters.into_iter().map(candidate).collect())
}

impl Candidate {
    fn refused(&self, why: Option<&'static str>) -> Option<Refused> {
        let queue = self.dead_letter.queue.clone();
        let key = self.dead_letter.key.clone();
        why.map(|why| Refused { queue, key, why: why.to_owned() })
    }
}

/// Decision about a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The dead letter is discarded.
    Discard,
    /// The event was applied, so the dead letter is closed as replayed.
    Close,
    /// The dead letter stays unchanged.
    Refuse(&'static str),
}

impl Verdict {
    /// Returns the reason why the dead letter is not discarded; `None` if it is discarded.
    fn why(self) -> Option<&'static str> {
        match self {
            Verdict::Discard => None,
            Verdict::Close => Some(APPLIED),
            Verdict::Refuse(why) => Some(why),
        }
    }
}

/// Dead letters and consume-log records, read together.
struct CurrentState {
    dead_letters: BTreeMap<(String, String), DeadLetter>,
    log: BTreeMap<(String, EventId), ConsumeRecord>,
}

impl CurrentState {
    async fn read<V>(view: &mut V, candidates: &[Candidate]) -> Result<CurrentState, StoreError>
    where
        V: DeadLetterQueries + ConsumeQueries + ?Sized,
    {
        let keys: Vec<String> =
            candidates.iter().map(|candidate| candidate.dead_letter.key.clone()).collect();
        let dead_letters = view.dead_letters_of(&keys).await?;
        let events = candidates.iter().filter_map(|candidate| candidate.event.as_ref());
        let events: Vec<EventId> = events.map(|(_, event)| event.event_id.clone()).collect();
        let log = view.consumed_of(&events).await?;
        Ok(CurrentState {
            dead_letters: dead_letters
                .into_iter()
                .map(|it| ((it.queue.clone(), it.key.clone()), it))
                .collect(),
            log: log.into_iter().map(|it| ((it.consumer, it.event_id), it.record)).collect(),
        })
    }

    fn dead_letter(&self, candidate: &Candidate) -> Option<&DeadLetter> {
        self.dead_letters.get(&(candidate.dead_letter.queue.clone(), candidate.dead_letter.key.clone()))
    }

    fn record(&self, candidate: &Candidate) -> Option<&ConsumeRecord> {
        let (consumer, event) = candidate.event.as_ref()?;
        self.log.get(&(consumer.clone(), event.event_id.clone()))
    }

    fn verdict(&self, candidate: &Candidate) -> Verdict {
        let Some(dead_letter) = self.dead_letter(candidate) else {
            return Verdict::Refuse("the dead letter no longer exists");
        };
        if let Some(why) = already_decided(dead_letter.status) {
            return Verdict::Refuse(why);
        }
        match self.record(candidate).map(|record| record.status) {
            Some(ConsumeStatus::Success) => Verdict::Close,
            Some(ConsumeStatus::Processing) => Verdict::Refuse("the event is being applied"),
            Some(ConsumeStatus::Waiting | ConsumeStatus::Failed | ConsumeStatus::Dead) | None => {
                Verdict::Discard
            }
        }
    }
}

/// Runs one unit of work. Returns for each dead letter the reason why it was not discarded; `None` if it was discarded.
async fn close(
    outbox: &Outbox,
    unit: &Arc<ActionUnit<Candidate>>,
) -> Result<Vec<Option<&'static str>>, StoreError> {
    with_tx(&outbox.tx, Arc::clone(unit), |unit, job, attempt| {
        Box::pin(async move { close_in_unit(unit.outbox(), attempt, job).await })
    })
    .await
}

async fn close_in_unit(
    unit: &mut dyn OutboxUnit,
    attempt: Attempt,
    ActionUnit { rows: candidates, entry }: &ActionUnit<Candidate>,
) -> Result<Vec<Option<&'static str>>, StoreError> {
    let is_repeated = changed_by_earlier_attempt(unit, attempt, entry).await?.is_some();
    let current = CurrentState::read(unit, candidates).await?;
    let mut reasons = Vec::with_capacity(candidates.len());
    let mut records = Vec::new();
    let mut changed = 0;
    for candidate in candidates {
        if let Some(dead_letter) = current.dead_letter(candidate)
            && is_repeated
            && dead_letter.decided_at == Some(entry.at)
        {
            // An earlier attempt at this unit of work has already closed the dead letter.
            match dead_letter.status {
                DeadLetterStatus::Discarded => {
                    reasons.push(None);
                    continue;
                }
                DeadLetterStatus::Replayed => {
                    reasons.push(Some(APPLIED));
                    continue;
                }
                DeadLetterStatus::Open | DeadLetterStatus::Replaying => {}
            }
        }
        let verdict = current.verdict(candidate);
        reasons.push(verdict.why());
        let (to, note) = match verdict {
            Verdict::Refuse(_) => continue,
            Verdict::Close => (DeadLetterStatus::Replayed, None),
            Verdict::Discard => (DeadLetterStatus::Discarded, entry.reason.clone()),
        };
        let queue = candidate.dead_letter.queue.clone();
        let key = candidate.dead_letter.key.clone();
        let decision = Decision { queue, key, from: UNDECIDED.to_vec(), to, note, at: entry.at };
        unit.decide(&decision).await?.or_conflict("dead letter")?;
        changed += 1;
        let record = current.record(candidate);
        let is_settled = record
            .is_some_and(|record| matches!(record.status, ConsumeStatus::Success | ConsumeStatus::Dead));
        if let Some((consumer, event)) = &candidate.event
            && !is_settled
        {
            records.push(dead_record(consumer, event, record, &candidate.dead_letter.reason, entry.at));
        }
    }
    // A replay changes the consume log together with the dead letter. If a replay did so before this unit of work
    // locked the dead letters, the decisions are obsolete, and the unit of work is repeated.
    let locked = CurrentState::read(unit, candidates).await?;
    if candidates.iter().any(|candidate| locked.record(candidate) != current.record(candidate)) {
        return Err(StoreError::Conflict { what: "the consume log of a dead letter".to_owned() });
    }
    if !records.is_empty() {
        unit.record(&records).await?;
    }
    if !is_repeated {
        unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
    }
    Ok(reasons)
}
