//! `bench`: how fast this machine, this database and this broker are with this service, and how fast they could be.
//!
//! Each figure stands beside a ceiling: the same work by the plainest code ([`handover_bare`]), on the same servers, in
//! the same run, by turns. Absolute figures are of one machine and one hour; the ratio is ours.
//!
//! **Invariant:** nothing is touched that was not made here: a database has to be without tables, queues have to be
//! missing or empty, and at the end both are as they were.

mod ceiling;
mod consume;
mod drain;
mod fill;
mod ground;
mod growth;
mod latency;
mod measure;
mod memory;
mod orders;
mod report;
mod stop;
mod tap;

use crate::cli::{BenchArgs, BenchMode};
use crate::commands::say;
use crate::progress::Progress;
use crate::signals::StopSignals;
use crate::{Exit, Failure};
use ground::Ground;
use measure::Plan;
use report::{Figure, Report};

/// Measures what was asked for and tells.
pub(crate) async fn run(arguments: &BenchArgs) -> Result<Exit, Failure> {
    let mut stopped = StopSignals::listen()?;
    let plan = Plan::of(arguments);
    let progress = Progress::new();
    let ground = Ground::take(arguments, &progress).await?;
    let measured = tokio::select! {
        biased;
        name = stopped.next() => Err(stop::by(name)),
        measured = measure_all(&plan, &ground, &progress) => measured,
    };
    progress.phase("cleaning up", 0);
    let settings = ground.settings(&plan).await;
    let left = ground.leave(arguments.keep).await;
    progress.end();
    let figures = measured?;
    left?;
    let report = Report::new(settings?, figures);
    say(&report.written(arguments.output.output))?;
    Ok(Exit::Done)
}

async fn measure_all(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for mode in &plan.modes {
        figures.extend(match mode {
            BenchMode::Orders => orders::measure(plan, ground, progress).await?,
            BenchMode::Drain => drain::measure(plan, ground, progress).await?,
            BenchMode::Consume => consume::measure(plan, ground, progress).await?,
            BenchMode::Latency => latency::measure(plan, ground, progress).await?,
            BenchMode::Growth => growth::measure(plan, ground, progress).await?,
        });
    }
    Ok(figures)
}
