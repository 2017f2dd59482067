//! An operator gives dead letters up.
//!
//! **Invariant:** one unit closes the letter and makes its event `DEAD` in the consume log, so what was given up takes no
//! effect later. An event that took effect meanwhile, or is about to, is not given up: the answer says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use handover_events::{ConsumeStatus, EventId};
use tracing::warn;

use super::letters::{Letters, Refused, UNDECIDED, decided};
use super::{Action, ActionUnit, OperationError, Operator, Reason, done_before, only};
use crate::consumers::given_up;
use crate::mutants::{Mutant, planted};
use crate::ports::{
    AuditEntry, ConsumeQueries, ConsumeRecord, DeadLetter, DeadLetterQueries, DeadLetterStatus, Decision,
    OutboxRow, OutboxUnit, StoreError,
};
use crate::{Attempt, Outbox, with_tx};

/// How many letters one unit of work decides about.
const UNIT: usize = 500;

/// Why a letter is closed as replayed, and not given up.
const APPLIED: &str = "it was applied";

/// Which letters are given up, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardLetters {
    /// Which.
    pub letters: Letters,
    /// Whether it is only looked what would happen.
    pub dry_run: bool,
    /// Why: nobody may wonder later.
    pub reason: Reason,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discarded {
    /// Whether it was only looked what would happen.
    pub dry_run: bool,
    /// How many letters were chosen, as far as one call goes.
    pub matched: u64,
    /// How many of them are given up; none in a dry run.
    pub discarded: u64,
    /// Those that are not, or would not be.
    pub refused: Vec<Refused>,
    /// Keys that were named and are not there, or another tenant's.
    pub not_found: Vec<String>,
    /// Whether the filter chooses further ones.
    pub more: bool,
}

/// Closes dead letters without their having taken effect; none of them does later. They stay where they are, with the
/// reason. One whose event was applied meanwhile is closed as replayed.
pub async fn discard_dead_letters(
    outbox: &Outbox,
    operator: &Operator,
    command: DiscardLetters,
) -> Result<Discarded, OperationError> {
    let chosen = command.letters.choose(outbox, operator).await?;
    let mut discarded = Discarded {
        dry_run: command.dry_run,
        matched: chosen.letters.len() as u64,
        not_found: chosen.missing,
        more: chosen.more,
        ..Discarded::default()
    };
    let tenant = only(chosen.letters.iter().map(|letter| letter.tenant)).or(command.letters.tenant());
    let cases = cases(outbox, chosen.letters).await?;
    let action = Action {
        name: "dead-letters.discard",
        selection: command.letters.selection(),
        reason: Some(command.reason),
    };
    if command.dry_run {
        let standing = Standing::read(outbox.view().await?.outbox_view(), &cases).await?;
        discarded.refused =
            cases.iter().filter_map(|case| case.refused(standing.verdict(case).why())).collect();
        action.dry_run().told(outbox, operator, tenant, discarded.matched).await?;
        return Ok(discarded);
    }
    if cases.is_empty() {
        action.told(outbox, operator, tenant, 0).await?;
        return Ok(discarded);
    }
    let cases = cases.into_iter().map(|case| (case.letter.tenant, case));
    for (part, unit) in action.units(operator, cases, UNIT, outbox.now()).into_iter().enumerate() {
        let unit = Arc::new(unit);
        match close(outbox, &unit).await {
            Ok(whys) => {
                discarded.discarded += whys.iter().filter(|why| why.is_none()).count() as u64;
                let refused = unit.rows.iter().zip(whys).filter_map(|(case, why)| case.refused(why));
                discarded.refused.extend(refused);
            }
            Err(error) if part > 0 => {
                warn!(%error, discarded = discarded.discarded, "a discard ends before its time");
                discarded.more = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(discarded)
}

/// A letter that is to be given up.
struct Case {
    letter: DeadLetter,
    /// The consumer it died at and its event, if it is one of ours.
    event: Option<(&'static str, OutboxRow)>,
}

async fn cases(outbox: &Outbox, letters: Vec<DeadLetter>) -> Result<Vec<Case>, StoreError> {
    let ids: Vec<EventId> = letters.iter().filter_map(|letter| letter.key.parse().ok()).collect();
    let rows = outbox.view().await?.outbox_view().outbox_by_event(&ids).await?;
    let rows: BTreeMap<&str, &OutboxRow> = rows.iter().map(|row| (row.event_id.as_str(), row)).collect();
    let case = |letter: DeadLetter| {
        let consumer = outbox.consumer_of(&letter.queue);
        let event = rows.get(letter.key.as_str()).map(|row| OutboxRow::clone(row));
        Case { event: consumer.zip(event), letter }
    };
    Ok(letters.into_iter().map(case).collect())
}

impl Case {
    fn refused(&self, why: Option<&'static str>) -> Option<Refused> {
        let (queue, key) = (self.letter.queue.clone(), self.letter.key.clone());
        why.map(|why| Refused { queue, key, why: why.to_owned() })
    }
}

/// What can be done about a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is given up.
    GiveUp,
    /// Its event was applied: it is closed.
    Close,
    /// It stays as it is.
    Refuse(&'static str),
}

impl Verdict {
    /// Why the letter is not given up, if it is not.
    fn why(self) -> Option<&'static str> {
        match self {
            Verdict::GiveUp => None,
            Verdict::Close => Some(APPLIED),
            Verdict::Refuse(why) => Some(why),
        }
    }
}

/// Where letters and their events stand, read in one go.
struct Standing {
    letters: BTreeMap<(String, String), DeadLetter>,
    log: BTreeMap<(String, EventId), ConsumeRecord>,
}

impl Standing {
    async fn read<V>(view: &mut V, cases: &[Case]) -> Result<Standing, StoreError>
    where
        V: DeadLetterQueries + ConsumeQueries + ?Sized,
    {
        let keys: Vec<String> = cases.iter().map(|case| case.letter.key.clone()).collect();
        let letters = view.dead_letters_of(&keys).await?;
        let events = cases.iter().filter_map(|case| case.event.as_ref());
        let events: Vec<EventId> = events.map(|(_, event)| event.event_id.clone()).collect();
        let log = view.consumed_of(&events).await?;
        Ok(Standing {
            letters: letters.into_iter().map(|it| ((it.queue.clone(), it.key.clone()), it)).collect(),
            log: log.into_iter().map(|it| ((it.consumer, it.event_id), it.record)).collect(),
        })
    }

    fn letter(&self, case: &Case) -> Option<&DeadLetter> {
        self.letters.get(&(case.letter.queue.clone(), case.letter.key.clone()))
    }

    fn record(&self, case: &Case) -> Option<&ConsumeRecord> {
        let (consumer, event) = case.event.as_ref()?;
        self.log.get(&((*consumer).to_owned(), event.event_id.clone()))
    }

    fn verdict(&self, case: &Case) -> Verdict {
        let Some(letter) = self.letter(case) else { return Verdict::Refuse("it is gone") };
        if let Some(why) = decided(letter.status) {
            return Verdict::Refuse(why);
        }
        match self.record(case).map(|record| record.status) {
            Some(ConsumeStatus::Success) => Verdict::Close,
            Some(ConsumeStatus::Processing) => Verdict::Refuse("it is being applied"),
            Some(ConsumeStatus::Waiting | ConsumeStatus::Failed | ConsumeStatus::Dead) | None => {
                Verdict::GiveUp
            }
        }
    }
}

/// One unit; tells of each letter why it is not given up, if it is not.
async fn close(
    outbox: &Outbox,
    unit: &Arc<ActionUnit<Case>>,
) -> Result<Vec<Option<&'static str>>, StoreError> {
    let job = Arc::clone(unit);
    with_tx(&outbox.tx, move |unit, attempt| {
        let job = Arc::clone(&job);
        Box::pin(async move { close_in(unit.outbox(), attempt, &job).await })
    })
    .await
}

async fn close_in(
    unit: &mut dyn OutboxUnit,
    attempt: Attempt,
    ActionUnit { rows: cases, entry }: &ActionUnit<Case>,
) -> Result<Vec<Option<&'static str>>, StoreError> {
    let is_repeated = done_before(unit, attempt, entry).await?.is_some();
    let standing = Standing::read(unit, cases).await?;
    let (mut whys, mut records, mut changed) = (Vec::with_capacity(cases.len()), Vec::new(), 0);
    for case in cases {
        if let Some(letter) = standing.letter(case)
            && is_repeated
            && letter.decided_at == Some(entry.at)
        {
            // By an earlier attempt at this very unit.
            match letter.status {
                DeadLetterStatus::Discarded => {
                    whys.push(None);
                    continue;
                }
                DeadLetterStatus::Replayed => {
                    whys.push(Some(APPLIED));
                    continue;
                }
                DeadLetterStatus::Open | DeadLetterStatus::Replaying => {}
            }
        }
        let verdict = standing.verdict(case);
        whys.push(verdict.why());
        let (to, note) = match verdict {
            Verdict::Refuse(_) => continue,
            Verdict::Close => (DeadLetterStatus::Replayed, None),
            Verdict::GiveUp => (DeadLetterStatus::Discarded, entry.reason.clone()),
        };
        let (queue, key) = (case.letter.queue.clone(), case.letter.key.clone());
        let decision = Decision { queue, key, from: UNDECIDED.to_vec(), to, note, at: entry.at };
        unit.decide(&decision).await?.or_conflict("dead letter")?;
        changed += 1;
        let record = standing.record(case);
        let is_settled = record
            .is_some_and(|record| matches!(record.status, ConsumeStatus::Success | ConsumeStatus::Dead));
        if let Some((consumer, event)) = &case.event
            && !is_settled
            && !planted(Mutant::DiscardLeavesEventAlive)
        {
            records.push(given_up(consumer, event, record, &case.letter.reason, entry.at));
        }
    }
    // A replay writes the log together with the letter. The letters are locked now: what it changed before is decided anew.
    let locked = Standing::read(unit, cases).await?;
    if cases.iter().any(|case| locked.record(case) != standing.record(case)) {
        return Err(StoreError::Conflict { what: "the consume log of a dead letter".to_owned() });
    }
    if !records.is_empty() {
        unit.record(&records).await?;
    }
    if !is_repeated {
        unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
    }
    Ok(whys)
}
