//! `outbox archive`, `outbox restore`: move events between the outbox and the archive, also while a process serves the database.

use handover_events::{AggregateRef, EventId};
use handover_http::views::{ArchiveView, RestoreView};
use handover_outbox::archive::Archive;
use handover_outbox::operations;
use handover_outbox::operations::{ArchiveEvents, Named, RestoreEvents, RestoreSelection};

use super::changes::{check_found, print_result, too_many};
use crate::access::{Access, Reach};
use crate::args::{OutboxArchiveArgs, OutboxRestoreArgs};
use crate::failure::CommandFailure;
use crate::values::aggregate_id;

fn archive_of<A: Access>(session: &A) -> Result<Archive, A::Failure> {
    Archive::of(session.outbox()).ok_or_else(|| CommandFailure::NoArchive {}.into())
}

/// `outbox archive`.
pub(crate) async fn archive<A: Access>(
    source: &A::Source,
    arguments: &OutboxArchiveArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let dry_run = arguments.dry_run;
    let command = ArchiveEvents { older_than: arguments.older_than, dry_run };
    let report = operations::archive_events(&archive_of(&session)?, session.operator(), command)
        .await
        .map_err(|error| session.failed(error))?;
    session.close().await;
    let (events, more) = (report.events, report.more);
    Ok(print_result(arguments.output.output, &ArchiveView::new(report, dry_run), events, more)?)
}

/// `outbox restore`.
pub(crate) async fn restore<A: Access>(
    source: &A::Source,
    arguments: &OutboxRestoreArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let events = selection(arguments)?;
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let command = RestoreEvents { events, reason: arguments.reason.clone() };
    let restored = operations::restore_events(&archive_of(&session)?, session.operator(), command)
        .await
        .map_err(|error| session.failed(error))?;
    session.close().await;
    let missing: Vec<String> = restored.not_found.iter().map(EventId::to_string).collect();
    let (count, more) = (restored.restored, restored.more);
    print_result(arguments.output.output, &RestoreView::from(restored), count, more)?;
    check_found(&session, &missing, "archived event", "handover outbox list")
}

fn selection<F: clap::Args>(arguments: &OutboxRestoreArgs<F>) -> Result<RestoreSelection, CommandFailure> {
    let usage = |what: String| CommandFailure::Usage {
        what,
        remedy: "see handover outbox restore --help".to_owned(),
    };
    if !arguments.event.is_empty() {
        let named = Named::new(arguments.event.clone());
        return named.map(RestoreSelection::Events).ok_or_else(|| usage(too_many("events")));
    }
    if let [kind, id] = arguments.aggregate.as_slice() {
        let id = aggregate_id(id).map_err(|why| usage(format!("--aggregate {kind} {id}: {why}")))?;
        let tenant = arguments.tenant;
        return Ok(RestoreSelection::Aggregate(AggregateRef { tenant, kind: kind.clone(), id }));
    }
    let period = arguments.from.zip(arguments.to);
    let (from, to) = period.ok_or_else(|| usage("name events, an aggregate or a period".to_owned()))?;
    Ok(RestoreSelection::Period { from, to })
}
