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
mod statements;
mod stop;
mod tap;
mod took;

use crate::cli::{BenchArgs, BenchMode};
use crate::commands::{note, say};
use crate::progress::Progress;
use crate::signals::StopSignals;
use crate::{Exit, Failure};
use ground::Ground;
use measure::Plan;
use report::{Figure, Report, Settings};
use statements::Statements;

/// Measures what was asked for and tells.
pub(crate) async fn run(arguments: &BenchArgs) -> Result<Exit, Failure> {
    let mut stopped = StopSignals::listen()?;
    let plan = Plan::of(arguments)?;
    let ground = Ground::take(arguments, Statements::listen()).await?;
    let progress = Progress::new();
    let measured = tokio::select! {
        biased;
        name = stopped.next() => Ended::Stopped(name),
        measured = measure_all(&plan, &ground, &progress) => Ended::Measured(measured),
    };
    progress.phase("cleaning up", 0);
    let left = ground.leave(arguments.keep).await;
    progress.end();
    let kept = left.as_ref().ok().and_then(|kept| kept.as_deref());
    match ended(measured, arguments.output.output, kept) {
        Ok(exit) => left.map(|_| exit),
        Err(failure) => {
            if let Err(left) = left {
                note(&left.explain().to_string());
            }
            Err(failure)
        }
    }
}

/// How the measuring ended.
enum Ended {
    /// By a signal.
    Stopped(&'static str),
    /// With figures, or without.
    Measured(Result<Report, Failure>),
}

/// Tells what there is to tell.
fn ended(ended: Ended, form: crate::cli::Output, kept: Option<&str>) -> Result<Exit, Failure> {
    if let Some(place) = kept {
        note(&format!("kept: {place}"));
    }
    match ended {
        Ended::Stopped(name) => {
            note(&format!("{name}: not measured to the end"));
            Ok(Exit::Failed)
        }
        Ended::Measured(report) => {
            say(&report?.written(form))?;
            Ok(Exit::Done)
        }
    }
}

async fn measure_all(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Report, Failure> {
    let mut figures: Vec<Figure> = Vec::new();
    for mode in &plan.modes {
        figures.extend(match mode {
            BenchMode::Orders => orders::measure(plan, ground, progress).await?,
            BenchMode::Drain => drain::measure(plan, ground, progress).await?,
            BenchMode::Consume => consume::measure(plan, ground, progress).await?,
            BenchMode::Latency => latency::measure(plan, ground, progress).await?,
            BenchMode::Growth => growth::measure(plan, ground, progress).await?,
        });
    }
    let (database, durability, broker) = ground.describe().await?;
    let settings = Settings {
        version: env!("CARGO_PKG_VERSION"),
        database,
        durability,
        broker,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        connections: ground.connections(),
        events: plan.events,
        batch: plan.batch.get(),
        prefetch: plan.prefetch.get(),
        rate: plan.rate,
        rounds: plan.rounds,
        seed: plan.seed,
    };
    Ok(Report { settings, figures })
}
