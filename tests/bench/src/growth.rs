//! `drain` with ever more sent rows in the table. The ceiling is the same drain with an empty one, which takes its place
//! by turns; on SQLite the empty one comes first.

use crate::baseline::{BareError, Session};

use super::backlog::{self, Backlog};
use super::drain::{self, UNIT};
use super::error::failed;
use super::fixture::Ground;
use super::measurement::{Took, rates, steps};
use super::port_recorder::Tap;
use super::report::Figure;
use super::series::{Plan, by_turns};
use crate::cli::BenchMode;
use handover::Failure;
use handover::progress::Progress;

pub(super) async fn measure(
    plan: &Plan,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    ground.clear().await?;
    let mut session = ground.session().await?;
    let swaps = session.copy_outbox().await.map_err(changed())?;
    let (mut figures, mut there) = (Vec::new(), 0);
    let mut sizes = plan.rows.clone();
    sizes.sort_unstable();
    for rows in sizes {
        let mut before = Vec::new();
        if !swaps {
            progress.phase("growth: an empty table", plan.turns() / 2);
            ground.clear().await?;
            (there, before) = (0, drains(plan, ground, progress).await?);
        }
        grow(&mut session, there, rows, progress).await?;
        there = rows;
        ground.settle().await?;
        progress.phase("growth", if swaps { plan.turns() } else { plan.turns() / 2 });
        let (full, empty) = if swaps {
            let full = async || one(ground, plan).await;
            by_turns(plan.rounds, progress, full, async || beside(ground, plan).await).await?
        } else {
            (drains(plan, ground, progress).await?, before)
        };
        let what = format!("{rows} sent rows");
        let mut figure = Figure::new(BenchMode::Growth, what, UNIT, rates(&full), rates(&empty));
        (figure.steps, figure.ceiling_steps) = (steps(&full), steps(&empty));
        figures.push(figure);
    }
    session.drop_outbox_copy().await.map_err(changed())?;
    ground.clear().await?;
    Ok(figures)
}

fn changed() -> impl FnOnce(BareError) -> Failure {
    failed("the outbox cannot be changed")
}

/// From so many sent rows to so many.
async fn grow(session: &mut Session, there: u64, rows: u64, progress: &Progress) -> Result<(), Failure> {
    let left = usize::try_from(rows.saturating_sub(there)).unwrap_or(usize::MAX);
    progress.phase("growth: sent rows", left);
    let mut next = there;
    while next < rows {
        let begun = next;
        next = session.add_sent_rows(next, rows).await.map_err(changed())?;
        progress.steps(next - begun);
    }
    Ok(())
}

/// A drain of what is appended to the table as it is.
async fn one(ground: &Ground, plan: &Plan) -> Result<Took, Failure> {
    ground.clear_queues().await?;
    backlog::events(&ground.app(&Tap::default(), None), plan.events, Backlog::Placed).await?;
    ground.settle().await?;
    drain::ours(ground, plan.events, plan.batch).await
}

/// The same in the empty copy.
async fn beside(ground: &Ground, plan: &Plan) -> Result<Took, Failure> {
    let mut session = ground.session().await?;
    session.swap_outboxes().await.map_err(changed())?;
    session.empty_outbox().await.map_err(changed())?;
    let took = one(ground, plan).await?;
    session.swap_outboxes().await.map_err(changed())?;
    Ok(took)
}

async fn drains(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Vec<Took>, Failure> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(one(ground, plan).await?);
        progress.step();
    }
    Ok(rounds)
}
