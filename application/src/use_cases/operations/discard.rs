//! An operator gives dead letters up.

use std::sync::Arc;

use tracing::warn;

use super::letters::{Letters, UNDECIDED};
use super::{Action, Reason, done_before};
use crate::ports::{AuditEntry, Changed, DeadLetter, DeadLetterStatus, Decision};
use crate::use_cases::UseCaseError;
use crate::{App, CommandContext, with_tx};

/// How many letters one unit of work decides about.
const UNIT: usize = 500;

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
    /// How many of them are given up; none in a dry run, and none that was decided about before.
    pub discarded: u64,
    /// Keys that were named and are not there, or another tenant's.
    pub not_found: Vec<String>,
    /// Whether the filter chooses further ones.
    pub more: bool,
}

/// Closes dead letters without their having taken effect. They stay where they are, with the reason.
pub async fn discard_dead_letters(
    app: &App,
    context: &CommandContext,
    command: DiscardLetters,
) -> Result<Discarded, UseCaseError> {
    let chosen = command.letters.choose(app, context).await?;
    let mut discarded = Discarded {
        dry_run: command.dry_run,
        matched: chosen.letters.len() as u64,
        not_found: chosen.missing,
        more: chosen.more,
        ..Discarded::default()
    };
    if command.dry_run {
        return Ok(discarded);
    }
    let action = Action {
        name: "dead-letters.discard",
        selection: command.letters.selection(),
        reason: Some(command.reason),
    };
    let (parts, now) = (chosen.letters.len().div_ceil(UNIT), app.now());
    for (part, letters) in chosen.letters.chunks(UNIT).enumerate() {
        let entry = action.entry(context, (part + 1, parts), now);
        match close(app, letters, entry).await {
            Ok(changed) => discarded.discarded += changed,
            Err(error) if discarded.discarded > 0 => {
                warn!(%error, discarded = discarded.discarded, "a discard ends before its time");
                discarded.more = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(discarded)
}

/// One unit; tells how many letters it closed.
async fn close(app: &App, letters: &[DeadLetter], entry: AuditEntry) -> Result<u64, UseCaseError> {
    let decisions: Vec<Decision> = letters
        .iter()
        .map(|letter| Decision {
            queue: letter.queue.clone(),
            key: letter.key.clone(),
            from: UNDECIDED.to_vec(),
            to: DeadLetterStatus::Discarded,
            note: entry.reason.clone(),
            at: entry.at,
        })
        .collect();
    let job = Arc::new((decisions, entry));
    with_tx(&app.tx, move |unit, attempt| {
        let job = Arc::clone(&job);
        Box::pin(async move {
            let (decisions, entry) = &*job;
            if let Some(changed) = done_before(unit, attempt, entry).await? {
                return Ok(changed);
            }
            let mut changed = 0;
            for decision in decisions {
                changed += match unit.decide(decision).await? {
                    Changed::One => 1,
                    Changed::None => 0,
                };
            }
            if changed > 0 {
                unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
            }
            Ok(changed)
        })
    })
    .await
}
