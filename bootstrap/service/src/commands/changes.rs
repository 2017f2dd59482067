//! `outbox redrive`, `outbox release`, `dlq replay`, `dlq discard`: change the database directly, also while a process
//! serves it.

use handover_events::EventId;
use handover_http::views::{DiscardView, RedriveView, ReleaseView, ReplayView};
use handover_outbox::operations;
use handover_outbox::operations::{
    DeadLetterSelection, DiscardDeadLetters, MAX_NAMED, Named, RedriveEvents, RedriveFilter,
    RedriveSelection, ReplayDeadLetters,
};
use handover_outbox::ports::OutboxFilter;
use handover_runtime::terminal::{Output, note, output, say};
use serde::Serialize;

use super::operator::{Operator, Reach};
use crate::cli::{DeadLetterArgs, DlqDiscardArgs, DlqReplayArgs, OutboxRedriveArgs, OutboxReleaseArgs};
use handover_runtime::Failure;

/// `outbox redrive`.
pub(super) async fn redrive(arguments: &OutboxRedriveArgs) -> Result<(), Failure> {
    let rows = rows(arguments)?;
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let command = RedriveEvents {
        rows,
        dry_run: arguments.dry_run,
        pace: arguments.per_second,
        reason: arguments.reason.clone(),
    };
    let redriven = operations::redrive_events(&operator.app.outbox, &operator.acting, command)
        .await
        .map_err(|error| operator.failed(error))?;
    operator.close().await;
    let missing: Vec<String> = redriven.not_found.iter().map(EventId::to_string).collect();
    let matched = redriven.matched;
    let more = redriven.more;
    print_result(arguments.output.output, &RedriveView::from(redriven), matched, more)?;
    check_found(&operator, &missing, "event", "handover outbox list")
}

fn rows(arguments: &OutboxRedriveArgs) -> Result<RedriveSelection, Failure> {
    let usage =
        |what: String| Failure::Usage { what, remedy: "see handover outbox redrive --help".to_owned() };
    if !arguments.events.is_empty() {
        let named = Named::new(arguments.events.clone());
        return named.map(RedriveSelection::Events).ok_or_else(|| usage(too_many("events")));
    }
    let filter = OutboxFilter {
        tenant: arguments.tenant,
        status: arguments.status,
        event_type: arguments.event_type.clone(),
        aggregate_type: arguments.aggregate_type.clone(),
        aggregate_id: arguments.aggregate_id,
        from: arguments.from,
        to: arguments.to,
        ..OutboxFilter::default()
    };
    match RedriveFilter::new(filter) {
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
pub(super) async fn release(arguments: &OutboxReleaseArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let kind = arguments.aggregate_type.clone();
    let id = arguments.aggregate_id;
    let released = operations::release_aggregate(
        &operator.app.outbox,
        &operator.acting,
        Some(arguments.tenant),
        (kind.clone(), id),
        arguments.reason.clone(),
    )
    .await;
    let released = released.map_err(|error| {
        operator.failed_to_find(
            error,
            format!("failed event of {kind} {id} that blocks later events"),
            "handover outbox blocked",
        )
    })?;
    operator.close().await;
    print_result(arguments.output.output, &ReleaseView::new(kind, id, released), released, false)
}

/// `dlq replay`.
pub(super) async fn replay(arguments: &DlqReplayArgs) -> Result<(), Failure> {
    let selection = selection(&arguments.dead_letters, "see handover dlq replay --help")?;
    let operator = Operator::open(&arguments.common, Reach::Broker).await?;
    let dry_run = arguments.dead_letters.dry_run;
    let command = ReplayDeadLetters { selection, dry_run, reason: arguments.reason.clone() };
    let replayed = operations::replay_dead_letters(&operator.app.outbox, &operator.acting, command)
        .await
        .map_err(|error| operator.failed(error))?;
    operator.close().await;
    let missing = replayed.not_found.clone();
    let matched = replayed.matched;
    let refused = replayed.refused.len();
    let more = replayed.more;
    print_result(arguments.output.output, &ReplayView::from(replayed), matched, more)?;
    check_found(&operator, &missing, "dead letter", "handover dlq list")?;
    if refused > 0 && !dry_run { Err(Failure::NotReplayed { refused, matched }) } else { Ok(()) }
}

/// `dlq discard`.
pub(super) async fn discard(arguments: &DlqDiscardArgs) -> Result<(), Failure> {
    let selection = selection(&arguments.dead_letters, "see handover dlq discard --help")?;
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let dry_run = arguments.dead_letters.dry_run;
    let command = DiscardDeadLetters { selection, dry_run, reason: arguments.reason.clone() };
    let discarded = operations::discard_dead_letters(&operator.app.outbox, &operator.acting, command)
        .await
        .map_err(|error| operator.failed(error))?;
    operator.close().await;
    let missing = discarded.not_found.clone();
    let matched = discarded.matched;
    let refused = discarded.refused.len();
    let more = discarded.more;
    print_result(arguments.output.output, &DiscardView::from(discarded), matched, more)?;
    check_found(&operator, &missing, "dead letter", "handover dlq list")?;
    if refused > 0 && !dry_run { Err(Failure::NotDiscarded { refused, matched }) } else { Ok(()) }
}

fn selection(arguments: &DeadLetterArgs, remedy: &str) -> Result<DeadLetterSelection, Failure> {
    let DeadLetterArgs { keys, queue, event_type, tenant, .. } = arguments.clone();
    if keys.is_empty() {
        return Ok(DeadLetterSelection::Filter { queue, event_type, tenant });
    }
    let usage = || Failure::Usage { what: too_many("dead letters"), remedy: remedy.to_owned() };
    Ok(DeadLetterSelection::Keys { keys: Named::new(keys).ok_or_else(usage)?, queue })
}

fn too_many(what: &str) -> String {
    format!("at most {MAX_NAMED} {what} can be named at a time")
}

fn print_result(format: Output, view: &impl Serialize, matched: u64, more: bool) -> Result<(), Failure> {
    if matched == 0 {
        note("no rows match");
    }
    if more {
        note("more rows match: run the command again");
    }
    say(&match format {
        Output::Table => output::object(&output::value(view)),
        Output::Json => output::json(view),
    })
}

/// Fails if named rows were not found.
fn check_found(
    operator: &Operator,
    missing: &[String],
    what: &str,
    see: &'static str,
) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(operator.missing(format!("{what} {}", missing.join(", ")), see))
}
