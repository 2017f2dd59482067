//! `outbox redrive`, `outbox release`, `dlq replay`, `dlq discard`: change the database directly, also while a process
//! serves it.

use std::time::Duration;

use chrono::TimeDelta;
use clap::Args;
use handover_events::EventId;
use handover_http::views::{DiscardView, RedriveView, ReleaseView, ReplayResultView, ReplayView};
use handover_outbox::operations;
use handover_outbox::operations::{
    DeadLetterSelection, DiscardDeadLetters, MAX_NAMED, Named, OperationError, RedriveEvents, RedriveFilter,
    RedriveSelection, ReplayDeadLetters, ReplayResult, ReplayState, SentDeadLetter,
};
use handover_runtime::terminal::{Output, OutputError, note, output, say};
use serde::Serialize;
use serde_json::Value;

use crate::access::{Access, Reach};
use crate::args::{DeadLetterArgs, DlqDiscardArgs, DlqReplayArgs, OutboxRedriveArgs, OutboxReleaseArgs};
use crate::failure::CommandFailure;
use crate::print::{show, table};

/// `outbox redrive`.
pub(crate) async fn redrive<A: Access>(
    source: &A::Source,
    arguments: &OutboxRedriveArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let rows = rows(arguments)?;
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let mut command = RedriveEvents {
        rows,
        dry_run: arguments.dry_run,
        pace: arguments.per_second,
        reason: arguments.reason.clone(),
    };
    let redriven = loop {
        let redriven = operations::redrive_events(session.outbox(), session.operator(), command.clone())
            .await
            .map_err(|error| session.failed(error))?;
        match (&mut command.rows, redriven.next) {
            (RedriveSelection::Filter { after, .. }, Some(next)) if redriven.matched == 0 => {
                *after = Some(next);
            }
            _ => break redriven,
        }
    };
    session.close().await;
    let missing: Vec<String> = redriven.not_found.iter().map(EventId::to_string).collect();
    let matched = redriven.matched;
    note_remaining(redriven.more, redriven.next);
    print_result(arguments.output.output, &RedriveView::from(redriven), matched, false)?;
    check_found(&session, &missing, "event", "handover outbox list")
}

fn rows<F: Args>(arguments: &OutboxRedriveArgs<F>) -> Result<RedriveSelection, CommandFailure> {
    let usage = |what: String| CommandFailure::Usage {
        what,
        remedy: "see handover outbox redrive --help".to_owned(),
    };
    if !arguments.events.is_empty() {
        let named = Named::new(arguments.events.clone());
        return named.map(RedriveSelection::Events).ok_or_else(|| usage(too_many("events")));
    }
    match RedriveFilter::new(arguments.filter.clone().into_filter()) {
        Ok(filter) => Ok(RedriveSelection::Filter { filter, after: arguments.cursor }),
        Err(operations::InvalidRedriveFilter::Empty) => {
            Err(usage("name events, or a filter such as --status failed".to_owned()))
        }
        Err(operations::InvalidRedriveFilter::Pending) => {
            Err(usage("--status must be failed or sent: other events are still to be published".to_owned()))
        }
    }
}

/// `outbox release`.
pub(crate) async fn release<A: Access>(
    source: &A::Source,
    arguments: &OutboxReleaseArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let kind = arguments.aggregate_type.clone();
    let id = arguments.aggregate_id.clone();
    let released = operations::release_aggregate(
        session.outbox(),
        session.operator(),
        Some(arguments.tenant),
        (kind.clone(), id.clone()),
        arguments.reason.clone(),
    )
    .await;
    let released = released.map_err(|error| {
        session.failed_to_find(
            error,
            format!("failed event of {kind} {id} that blocks later events"),
            "handover outbox blocked",
        )
    })?;
    session.close().await;
    Ok(print_result(arguments.output.output, &ReleaseView::new(kind, id, released), released, false)?)
}

/// `dlq replay`.
pub(crate) async fn replay<A: Access>(
    source: &A::Source,
    arguments: &DlqReplayArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let selection = selection(&arguments.dead_letters, "see handover dlq replay --help")?;
    let session = A::open(source, &arguments.common, Reach::Broker).await?;
    let dry_run = arguments.dead_letters.dry_run;
    let command = ReplayDeadLetters { selection, dry_run, reason: arguments.reason.clone() };
    let replayed = operations::replay_dead_letters(session.outbox(), session.operator(), command)
        .await
        .map_err(|error| session.failed(error))?;
    let results = results(&session, &replayed.sent, arguments.wait).await;
    session.close().await;
    let results = results.map_err(|error| session.failed(error))?;
    let with_state = |state| results.iter().filter(|result| result.state == state).count();
    let (dead, queued) = (with_state(ReplayState::Dead), with_state(ReplayState::Queued));
    let missing = replayed.not_found.clone();
    let matched = replayed.matched;
    let refused = replayed.refused.len();
    print_notes(matched, replayed.more);
    if queued > 0 {
        note(&format!(
            "{queued} of them are still queued: a running process with the role consumers applies them; see \
             `handover consumptions --event-id EVENT_ID`"
        ));
    }
    say(&replay_text(arguments.output.output, &ReplayView::from(replayed), results))?;
    check_found(&session, &missing, "dead letter", "handover dlq list")?;
    match (refused, dead) {
        (0, 0) => Ok(()),
        (0, dead) => Err(CommandFailure::DeadAgain { dead }.into()),
        (refused, _) => Err(CommandFailure::NotReplayed { refused, matched, dry_run }.into()),
    }
}

/// Time between two looks at the results of a replay.
const RESULT_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until the consumers have finished these events, at most for this time.
async fn results<A: Access>(
    session: &A,
    sent: &[SentDeadLetter],
    wait: Duration,
) -> Result<Vec<ReplayResult>, OperationError> {
    let outbox = session.outbox();
    let until = TimeDelta::from_std(wait).ok().and_then(|wait| outbox.now().checked_add_signed(wait));
    loop {
        let results = operations::replay_results(outbox, sent).await?;
        let is_finished = results.iter().all(|result| result.state != ReplayState::Queued);
        if is_finished || until.is_some_and(|until| outbox.now() >= until) {
            return Ok(results);
        }
        outbox.sleep(RESULT_INTERVAL).await;
    }
}

/// The result of the replay, and those of its dead letters.
fn replay_text(format: Output, replay: &ReplayView, results: Vec<ReplayResult>) -> String {
    let mut replay = output::value(replay);
    let results: Vec<Value> =
        results.into_iter().map(|result| output::value(&ReplayResultView::from(result))).collect();
    match format {
        Output::Json => {
            replay["results"] = results.into();
            output::json(&replay)
        }
        Output::Table if results.is_empty() => output::object(&replay),
        Output::Table => format!("{}\n{}", output::object(&replay), table::<ReplayResultView>(&results)),
    }
}

/// `dlq discard`.
pub(crate) async fn discard<A: Access>(
    source: &A::Source,
    arguments: &DlqDiscardArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let selection = selection(&arguments.dead_letters, "see handover dlq discard --help")?;
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let dry_run = arguments.dead_letters.dry_run;
    let command = DiscardDeadLetters { selection, dry_run, reason: arguments.reason.clone() };
    let discarded = operations::discard_dead_letters(session.outbox(), session.operator(), command)
        .await
        .map_err(|error| session.failed(error))?;
    session.close().await;
    let missing = discarded.not_found.clone();
    let matched = discarded.matched;
    let refused = discarded.refused.len();
    let more = discarded.more;
    print_result(arguments.output.output, &DiscardView::from(discarded), matched, more)?;
    check_found(&session, &missing, "dead letter", "handover dlq list")?;
    if refused > 0 { Err(CommandFailure::NotDiscarded { refused, matched, dry_run }.into()) } else { Ok(()) }
}

fn selection(arguments: &DeadLetterArgs, remedy: &str) -> Result<DeadLetterSelection, CommandFailure> {
    let DeadLetterArgs { keys, queue, event_type, tenant, from, to, .. } = arguments.clone();
    if keys.is_empty() {
        return Ok(DeadLetterSelection::Filter { queue, event_type, tenant, from, to });
    }
    let usage = || CommandFailure::Usage { what: too_many("dead letters"), remedy: remedy.to_owned() };
    Ok(DeadLetterSelection::Keys { keys: Named::new(keys).ok_or_else(usage)?, queue })
}

pub(super) fn too_many(what: &str) -> String {
    format!("at most {MAX_NAMED} {what} can be named at a time")
}

pub(super) fn print_result(
    format: Output,
    view: &impl Serialize,
    matched: u64,
    more: bool,
) -> Result<(), OutputError> {
    print_notes(matched, more);
    show(format, view)
}

fn print_notes(matched: u64, more: bool) {
    if matched == 0 {
        note("no rows match");
    }
    note_remaining(more, None);
}

/// Says how to continue if rows remain.
pub(super) fn note_remaining(more: bool, cursor: Option<i64>) {
    match cursor {
        Some(cursor) => note(&format!("rows remain: continue with --cursor {cursor}")),
        None if more => note("more rows match: run the command again"),
        None => {}
    }
}

/// Fails if named rows were not found.
pub(super) fn check_found<A: Access>(
    session: &A,
    missing: &[String],
    what: &str,
    see: &'static str,
) -> Result<(), A::Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(session.missing(format!("{what} {}", missing.join(", ")), see))
}
