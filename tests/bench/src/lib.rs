//! Benchmark of the service on a database and a broker, compared with a baseline.
//!
//! The baseline ([`baseline`]) does the same work directly with the drivers, on the same servers, in the same run, in
//! alternating turns. Absolute figures depend on the machine and its load; their ratio is a property of the service.
//!
//! **Invariant:** the benchmark changes only what it created: the database must have no tables, the queues must be
//! missing or empty, and without `--keep` both are left as they were.

mod backlog;
pub mod baseline;
mod baseline_turns;
mod chain;
pub mod cli;
mod consume;
mod drain;
mod enqueue;
mod error;
pub mod event_latencies;
mod fixture;
mod growth;
mod held;
mod latency;
pub mod measurement;
pub mod memory;
mod orders;
mod plan;
pub mod port_recorder;
pub mod raw_values;
pub mod report;
pub mod series;
pub mod statement_counter;
mod webhook_receiver;
mod webhooks;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use handover_runtime::signals::StopSignals;
use handover_runtime::terminal::Output;
use handover_runtime::terminal::progress::Progress;
use handover_runtime::terminal::{flush, note, say};
use handover_runtime::{Exit, Failure};

use cli::{BenchArgs, Mode};
pub use error::BenchError;
use fixture::Fixture;
use plan::Plan;
use report::{Figure, Report, Settings};
use statement_counter::StatementCounter;

/// Parses the command line, runs the benchmark and returns the exit code of the program.
pub fn main() -> ExitCode {
    let arguments = BenchArgs::parse();
    let exit = run_on_threads(&arguments).unwrap_or_else(|error| {
        note(&error.explain());
        error.exit()
    });
    flush();
    exit.into()
}

/// Runs the benchmark on a runtime that is configured like that of `handover`, because the figures depend on it.
fn run_on_threads(arguments: &BenchArgs) -> Result<Exit, BenchError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .global_queue_interval(2)
            .build()
            .map_err(|cause| Failure::System { what: "cannot start the threads of the runtime", cause })?;
    let result = runtime.block_on(run(arguments));
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

async fn run(arguments: &BenchArgs) -> Result<Exit, BenchError> {
    let mut signals = StopSignals::listen()?;
    let plan = Plan::from_arguments(arguments)?;
    let fixture = Fixture::set_up(arguments, StatementCounter::install()).await?;
    let progress = Progress::start()?;
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Outcome::Interrupted(signal),
        measured = measure_all(&plan, &fixture, &progress) => Outcome::Measured(measured),
    };
    progress.phase("cleaning up", 0);
    let torn_down = fixture.tear_down(arguments.keep).await;
    progress.end();
    let kept = torn_down.as_ref().ok().and_then(|kept| kept.as_deref());
    match print(outcome, arguments.output.output, kept) {
        Ok(exit) => torn_down.map(|_| exit),
        Err(error) => {
            if let Err(tear_down_error) = torn_down {
                note(&tear_down_error.explain());
            }
            Err(error)
        }
    }
}

/// Outcome of the run.
enum Outcome {
    /// The signal with this name ended the run.
    Interrupted(&'static str),
    Measured(Result<Report, BenchError>),
}

fn print(outcome: Outcome, format: Output, kept: Option<&str>) -> Result<Exit, BenchError> {
    if let Some(place) = kept {
        note(&format!("kept: {place}"));
    }
    match outcome {
        Outcome::Interrupted(signal) => {
            note(&format!("{signal}: benchmark interrupted; no figures"));
            Ok(Exit::Failed)
        }
        Outcome::Measured(report) => {
            say(&report?.format(format)).map_err(Failure::from)?;
            Ok(Exit::Done)
        }
    }
}

async fn measure_all(plan: &Plan, fixture: &Fixture, progress: &Progress) -> Result<Report, BenchError> {
    let mut figures: Vec<Figure> = Vec::new();
    for mode in &plan.modes {
        figures.extend(match mode {
            Mode::Orders => orders::measure(plan, fixture, progress).await?,
            Mode::Drain => drain::measure(plan, fixture, progress).await?,
            Mode::Consume => consume::measure(plan, fixture, progress).await?,
            Mode::Latency => latency::measure(plan, fixture, progress).await?,
            Mode::Growth => growth::measure(plan, fixture, progress).await?,
            Mode::Webhooks => webhooks::measure(plan, fixture, progress).await?,
            Mode::Chain => chain::measure(plan, fixture, progress).await?,
            Mode::Held => held::measure(plan, fixture, progress).await?,
            Mode::Enqueue => enqueue::measure(plan, fixture, progress).await?,
        });
    }
    let servers = fixture.describe().await?;
    let settings = Settings {
        version: env!("CARGO_PKG_VERSION"),
        database: servers.database,
        durability: servers.durability,
        broker: servers.broker,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        connections: fixture.connections(),
        events: plan.events,
        batch: plan.batch.get(),
        prefetch: plan.prefetch.get(),
        rate: plan.rate,
        rounds: plan.rounds,
        seed: plan.seed,
    };
    Ok(Report { settings, figures })
}
