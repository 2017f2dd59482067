//! `growth`: `drain` and `consume` with an increasing number of settled events in the outbox and the consume log. The baseline is
//! the same with empty tables. On servers, the empty tables are copies that are swapped in for each turn of the baseline. On SQLite
//! there are no copies, so the baseline is measured first.

use handover_runtime::terminal::progress::Progress;

use crate::backlog::{self, Backlog};
use crate::baseline::Connection;
use crate::cli::Mode;
use crate::consume;
use crate::drain::{self, UNIT};
use crate::error::{BenchError, baseline_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::Figure;
use crate::series::{Rounds, alternate};

const TABLES_ERROR: &str = "cannot change the tables that grow";

/// What is measured with each number of rows.
#[derive(Clone, Copy)]
enum Work {
    Drain,
    Consume,
}

impl Work {
    const ALL: [Work; 2] = [Work::Drain, Work::Consume];

    const fn name(self) -> &'static str {
        match self {
            Work::Drain => "drain",
            Work::Consume => "consume",
        }
    }
}

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    fixture.clear().await?;
    let mut connection = fixture.connection().await?;
    let has_copies = connection.copy_growing().await.map_err(baseline_error(TABLES_ERROR))?;
    let mut figures = Vec::new();
    let mut present_rows = 0;
    let mut sizes = plan.rows.clone();
    sizes.sort_unstable();
    for rows in sizes {
        let mut empty = Vec::new();
        if !has_copies {
            progress.phase("growth: empty tables", plan.turns());
            fixture.clear().await?;
            present_rows = 0;
            for work in Work::ALL {
                empty.push(turns(work, plan, fixture, progress).await?);
            }
        }
        add_settled_events(&mut connection, present_rows, rows, progress).await?;
        present_rows = rows;
        fixture.analyze().await?;
        progress.phase("growth", if has_copies { 2 * plan.turns() } else { plan.turns() });
        let mut empty = empty.into_iter();
        for work in Work::ALL {
            let rounds = match empty.next() {
                Some(baseline) => Rounds { service: turns(work, plan, fixture, progress).await?, baseline },
                None => {
                    let full = async || turn(work, fixture, plan).await;
                    alternate(plan.rounds, progress, full, async || on_copies(work, fixture, plan).await)
                        .await?
                }
            };
            let what = format!("{}, {rows} settled events", work.name());
            let mut figure =
                Figure::new(Mode::Growth, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
            figure.steps = steps(&rounds.service);
            figure.baseline_steps = steps(&rounds.baseline);
            figures.push(figure);
        }
    }
    connection.drop_copies().await.map_err(baseline_error(TABLES_ERROR))?;
    fixture.clear().await?;
    Ok(figures)
}

/// Increases the number of settled events from `present` to `rows`.
async fn add_settled_events(
    connection: &mut Connection,
    present: u64,
    rows: u64,
    progress: &Progress,
) -> Result<(), BenchError> {
    let missing = usize::try_from(rows.saturating_sub(present)).unwrap_or(usize::MAX);
    progress.phase("growth: settled events", missing);
    let mut next = present;
    while next < rows {
        let first = next;
        next = connection.add_settled_events(first, rows).await.map_err(baseline_error(TABLES_ERROR))?;
        progress.steps(next - first);
    }
    Ok(())
}

/// Appends a backlog to the current tables, and drains or consumes it.
async fn turn(work: Work, fixture: &Fixture, plan: &Plan) -> Result<Measurement, BenchError> {
    fixture.clear_queues().await?;
    match work {
        Work::Drain => {
            let app = fixture.app(&PortRecorder::default(), None);
            backlog::append(&app, plan.events, Backlog::Placed).await?;
            fixture.analyze().await?;
            drain::drain(fixture, plan.events, plan.batch).await
        }
        Work::Consume => {
            let emptied = fixture.connection().await?.empty_orders().await;
            emptied.map_err(baseline_error(TABLES_ERROR))?;
            consume::fill(fixture, plan).await?;
            consume::consume(fixture, plan).await
        }
    }
}

/// A turn with the copies of the tables, emptied, in the place of the tables.
async fn on_copies(work: Work, fixture: &Fixture, plan: &Plan) -> Result<Measurement, BenchError> {
    let mut connection = fixture.connection().await?;
    connection.swap_growing().await.map_err(baseline_error(TABLES_ERROR))?;
    connection.empty_growing().await.map_err(baseline_error(TABLES_ERROR))?;
    let measurement = turn(work, fixture, plan).await?;
    connection.swap_growing().await.map_err(baseline_error(TABLES_ERROR))?;
    Ok(measurement)
}

async fn turns(
    work: Work,
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Measurement>, BenchError> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(turn(work, fixture, plan).await?);
        progress.step();
    }
    Ok(rounds)
}
