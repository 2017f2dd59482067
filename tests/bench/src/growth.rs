//! `growth`: `drain` with an increasing number of SENT rows in the outbox. The baseline is the same drain with an empty
//! outbox. On servers, the empty table is a copy of the outbox that is swapped in for each turn of the baseline. On
//! SQLite there is no copy, so the baseline is measured first.

use handover_runtime::terminal::progress::Progress;

use crate::backlog::{self, Backlog};
use crate::baseline::Connection;
use crate::cli::Mode;
use crate::drain::{self, UNIT};
use crate::error::{BenchError, baseline_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::Figure;
use crate::series::{Rounds, alternate};

const OUTBOX_ERROR: &str = "cannot change the outbox";

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    fixture.clear().await?;
    let mut connection = fixture.connection().await?;
    let has_copy = connection.copy_outbox().await.map_err(baseline_error(OUTBOX_ERROR))?;
    let mut figures = Vec::new();
    let mut present_rows = 0;
    let mut sizes = plan.rows.clone();
    sizes.sort_unstable();
    for rows in sizes {
        let mut empty = Vec::new();
        if !has_copy {
            progress.phase("growth: an empty table", plan.turns() / 2);
            fixture.clear().await?;
            present_rows = 0;
            empty = drains(plan, fixture, progress).await?;
        }
        add_sent_rows(&mut connection, present_rows, rows, progress).await?;
        present_rows = rows;
        fixture.analyze().await?;
        progress.phase("growth", if has_copy { plan.turns() } else { plan.turns() / 2 });
        let rounds = if has_copy {
            let full = async || append_and_drain(fixture, plan).await;
            alternate(plan.rounds, progress, full, async || drain_copy(fixture, plan).await).await?
        } else {
            Rounds { service: drains(plan, fixture, progress).await?, baseline: empty }
        };
        let what = format!("{rows} sent rows");
        let mut figure =
            Figure::new(Mode::Growth, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
        figure.steps = steps(&rounds.service);
        figure.baseline_steps = steps(&rounds.baseline);
        figures.push(figure);
    }
    connection.drop_outbox_copy().await.map_err(baseline_error(OUTBOX_ERROR))?;
    fixture.clear().await?;
    Ok(figures)
}

/// Increases the number of SENT rows in the outbox from `present` to `rows`.
async fn add_sent_rows(
    connection: &mut Connection,
    present: u64,
    rows: u64,
    progress: &Progress,
) -> Result<(), BenchError> {
    let missing = usize::try_from(rows.saturating_sub(present)).unwrap_or(usize::MAX);
    progress.phase("growth: sent rows", missing);
    let mut next = present;
    while next < rows {
        let first = next;
        next = connection.add_sent_rows(first, rows).await.map_err(baseline_error(OUTBOX_ERROR))?;
        progress.steps(next - first);
    }
    Ok(())
}

/// Appends a backlog to the current outbox table and drains it.
async fn append_and_drain(fixture: &Fixture, plan: &Plan) -> Result<Measurement, BenchError> {
    fixture.clear_queues().await?;
    backlog::append(&fixture.app(&PortRecorder::default(), None), plan.events, Backlog::Placed).await?;
    fixture.analyze().await?;
    drain::drain(fixture, plan.events, plan.batch).await
}

/// Replaces the outbox with its copy, empties the copy, appends a backlog to it, drains the backlog and swaps the
/// tables back.
async fn drain_copy(fixture: &Fixture, plan: &Plan) -> Result<Measurement, BenchError> {
    let mut connection = fixture.connection().await?;
    connection.swap_outboxes().await.map_err(baseline_error(OUTBOX_ERROR))?;
    connection.empty_outbox().await.map_err(baseline_error(OUTBOX_ERROR))?;
    let measurement = append_and_drain(fixture, plan).await?;
    connection.swap_outboxes().await.map_err(baseline_error(OUTBOX_ERROR))?;
    Ok(measurement)
}

async fn drains(plan: &Plan, fixture: &Fixture, progress: &Progress) -> Result<Vec<Measurement>, BenchError> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(append_and_drain(fixture, plan).await?);
        progress.step();
    }
    Ok(rounds)
}
