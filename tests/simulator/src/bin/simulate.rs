//! Command-line program of the simulator.

#![allow(clippy::disallowed_methods, reason = "progress and rates are measured in real time")]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use handover_simulator::campaign::{self, RunTotals};
use handover_simulator::{Profile, Run, play, story};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs the whole application with injected faults, in virtual time; one seed is one reproducible run.
#[derive(Parser)]
#[command(name = "simulate", max_term_width = 100)]
struct Arguments {
    /// Number of seeds to run
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    first_seed: u64,
    /// Profile of the faults: storm, database, broker or process [default: all profiles; storm if --seed is given]
    #[arg(long)]
    profile: Option<Profile>,
    /// Number of threads [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Run only this seed and print its log
    #[arg(long, conflicts_with_all = ["seeds", "first_seed", "jobs", "traces"])]
    seed: Option<u64>,
    /// End the fault phase of the seed given by --seed after this many milliseconds of virtual time
    #[arg(long, requires = "seed", value_name = "MS")]
    until: Option<u64>,
    /// Print a hash of the log of each seed, which is the same in every build
    #[arg(long)]
    traces: bool,
    /// Activate this fault of tests/simulator/faults (only in the patched copy of the workspace)
    #[cfg(handover_overlay)]
    #[arg(long)]
    fault: Option<String>,
}

impl Arguments {
    #[cfg(handover_overlay)]
    fn activate(&self) {
        handover_outbox::fault::activate(self.fault.clone().map(|name| &*name.leak()));
    }

    #[cfg(not(handover_overlay))]
    fn activate(&self) {}
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let profiles = arguments.profile.map_or(Profile::ALL.to_vec(), |profile| vec![profile]);
    if let Some(seed) = arguments.seed {
        return run_one(&arguments, seed, profiles.first().copied().unwrap_or(Profile::Storm));
    }
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    for profile in profiles {
        if arguments.traces {
            for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
                let outcome = play(Run { story: true, ..Run::new(seed, profile) });
                println!("{seed} {} {:016x}", profile.name(), story::trace(&outcome.story));
            }
            continue;
        }
        if !run_many(&arguments, profile, jobs) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs one seed and prints its log.
fn run_one(arguments: &Arguments, seed: u64, profile: Profile) -> ExitCode {
    arguments.activate();
    let until = arguments.until.map(std::time::Duration::from_millis);
    let outcome = play(Run { until, story: true, ..Run::new(seed, profile) });
    for line in &outcome.story {
        println!("{line}");
    }
    println!("{} orders, {} events", outcome.orders, outcome.events);
    for broken in &outcome.violations {
        println!("VIOLATION: {broken}");
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs many seeds of one profile; returns false if one of them violates an invariant.
fn run_many(arguments: &Arguments, profile: Profile, jobs: usize) -> bool {
    let bar = ProgressBar::new(arguments.seeds).with_style(style());
    bar.set_message(profile.name());
    let begun = Instant::now();
    let seeds = arguments.first_seed..arguments.first_seed + arguments.seeds;
    let run_seed = |seed| {
        arguments.activate();
        play(Run::new(seed, profile))
    };
    let totals = campaign::run(seeds, jobs, run_seed, || bar.inc(1));
    bar.finish_and_clear();
    print(profile, &totals, begun.elapsed().as_secs_f64());
    let Some(seed) = totals.failed else { return true };
    let shortest = campaign::shortest(seed, profile, |run| {
        arguments.activate();
        play(run)
    });
    println!("{}", campaign::report(seed, profile, &shortest));
    false
}

fn style() -> ProgressStyle {
    let template = "{msg} [{bar:40}] {pos}/{len} {per_sec} {eta}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn print(profile: Profile, totals: &RunTotals, seconds: f64) {
    let RunTotals { seeds, orders, events, coverage, .. } = totals;
    println!(
        "{}: {seeds} seeds, {orders} orders, {events} events in {seconds:.1} s: {:.0} seeds/s",
        profile.name(),
        *seeds as f64 / seconds
    );
    print!("{coverage}");
    for missing in coverage.missing() {
        println!("never reached: {missing}");
    }
}
