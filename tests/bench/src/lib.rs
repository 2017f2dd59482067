//! The benchmark: how fast this machine, this database and this broker are with this service, and how fast they could be.
//!
//! Each figure stands beside a ceiling: the same work by the plainest code ([`baseline`]), on the same servers, in
//! the same run, by turns. Absolute figures are of one machine and one hour; the ratio is ours.
//!
//! **Invariant:** nothing is touched that was not made here: a database has to be without tables, queues have to be
//! missing or empty, and at the end both are as they were.

mod backlog;
mod baseline;
mod cli;
mod consume;
mod drain;
mod error;
mod fixture;
mod growth;
mod latency;
mod measurement;
mod memory;
mod orders;
mod port_recorder;
mod report;
mod series;
mod statement_counter;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use cli::{BenchArgs, BenchMode};
use fixture::Ground;
use handover::commands::{note, say};
use handover::progress::Progress;
use handover::signals::StopSignals;
use handover::{Exit, Failure};
use report::{Figure, Report, Settings};
use series::Plan;
use statement_counter::Statements;

/// Parses the command line, runs the benchmark and returns the exit code of the program.
pub fn main() -> ExitCode {
    let arguments = BenchArgs::parse();
    match run_on_threads(&arguments) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            note(&failure.explain().to_string());
            failure.exit().into()
        }
    }
}

/// The runtime is configured as that of `handover`: the figures depend on it.
fn run_on_threads(arguments: &BenchArgs) -> Result<Exit, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .global_queue_interval(2)
            .build()
            .map_err(|cause| Failure::System { what: "the runtime's threads cannot be started", cause })?;
    let result = runtime.block_on(run(arguments));
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

/// Measures what was asked for and tells.
async fn run(arguments: &BenchArgs) -> Result<Exit, Failure> {
    let mut stopped = StopSignals::listen()?;
    let plan = Plan::of(arguments)?;
    let ground = Ground::take(arguments, Statements::listen()).await?;
    let progress = Progress::start();
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
fn ended(ended: Ended, form: handover::cli::Output, kept: Option<&str>) -> Result<Exit, Failure> {
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
