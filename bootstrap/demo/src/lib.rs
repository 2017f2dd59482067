//! `demo`: a market day that proves itself. It plays a day through the API of a service of its own, lets happen to the
//! messages what happens to messages, and then holds every row against what was promised.
//!
//! **Invariant:** nothing outside its own folder is read or written.

mod args;
mod books;
mod carrier;
mod client;
mod day;
mod dice;
mod figures;
mod gateway;
mod journal;
mod market;
mod mishaps;
mod plan;
mod report;
mod settings;
mod settle;
mod verdict;

use std::fs::File;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::Chance;
use handover_system::OsChance;
use marketplace::App;
use marketplace::ports::Work;
use tempfile::TempDir;
use tokio::time::Instant;

pub use args::{DemoArgs, HELP};
use books::Books;
use client::Api;
use day::Day;
use figures::Figures;
use gateway::Evening;
use journal::Journal;
use market::Market;
use marketplace_wiring::Parts;
use marketplace_wiring::adapters::{Between, Looked};
use marketplace_wiring::config::Config;
use marketplace_wiring::signals::{STOP_WITHIN, StopSignals};
use marketplace_wiring::terminal::Output;
use marketplace_wiring::terminal::progress::Progress;
use marketplace_wiring::terminal::say;
use marketplace_wiring::{Exit, Failure, Service, telemetry};
use mishaps::Mishaps;
use plan::{Plan, Unplannable};
use report::Report;
use verdict::{Evidence, Taker, Terms};

/// How long the broker is away.
const OUTAGE: Duration = Duration::from_secs(3);
/// How much later than its deadline an unpaid order may be closed. A message closes it moments after the broker is back,
/// on a very busy machine within seconds; the sweep, which runs every ten minutes, must have closed none. The bound lies
/// between the two: it is no measure of the machine.
const SLACK: Duration = Duration::from_secs(30);
/// And how much more for each order of the day: they are placed as fast as they are answered, which is faster than they
/// are settled.
const SLACK_PER_ORDER: Duration = Duration::from_millis(1);
/// A seed that a person can type.
const SEEDS: u64 = 1_000_000_000;

/// Plays the day and tells what became of the promises.
pub async fn run(arguments: &DemoArgs) -> Result<Exit, Failure> {
    let mut stopped = StopSignals::listen()?;
    let folder = Folder::make(arguments.keep)?;
    let config = settings::write(folder.path(), arguments.orders)?;
    let log = File::create(folder.path().join("demo.log"))
        .map_err(|cause| Failure::System { what: "the demo's folder cannot be written", cause })?;
    telemetry::install_in(&config.log, log);
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => OsChance::seeded()?.next() % SEEDS,
    };
    let mishaps = Mishaps::default();
    let evening = Evening::default();
    let between = Between {
        broker: Box::new({
            let mishaps = mishaps.clone();
            move |broker| carrier::carried(broker, mishaps)
        }),
        gateway: Box::new({
            let evening = evening.clone();
            move |gateway| evening.opens(gateway)
        }),
    };
    let mut service = Service::start_between(&config, Parts::ALL, between).await?;
    let progress = Progress::start();
    progress.tell(&format!("seed {seed}, log in {}", folder.path().join("demo.log").display()));
    let played = async {
        let demo = Demo { arguments, seed, config: &config, mishaps: &mishaps, progress: &progress };
        let exit = demo.play(&service, &folder).await;
        evening.begin();
        exit
    };
    let ended = tokio::select! {
        biased;
        name = stopped.next() => Ended::Stopped(name),
        played = played => Ended::Played(played),
    };
    progress.end();
    let exit = match ended {
        Ended::Stopped(name) => {
            warn(&format!("{name}: the day was not played to its end"));
            Ok(Exit::Failed)
        }
        Ended::Played(Err(failure)) => Err(failure),
        Ended::Played(Ok(exit)) if arguments.keep => tokio::select! {
            _ = stopped.next() => Ok(exit),
            failure = service.failed() => Err(failure),
        },
        Ended::Played(Ok(exit)) => Ok(exit),
    };
    tokio::select! {
        ended = service.stop(STOP_WITHIN) => ended?,
        // A second signal: what is left of the service ends with the process.
        _ = stopped.next() => {}
    }
    exit
}

/// How the day ended.
enum Ended {
    /// By a signal.
    Stopped(&'static str),
    /// With a verdict, or without one.
    Played(Result<Exit, Failure>),
}

/// The folder of the day: removed at the end unless it is kept.
enum Folder {
    Passing(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn make(keep: bool) -> Result<Folder, Failure> {
        let made = tempfile::Builder::new().prefix("handover-demo-").tempdir();
        let folder = made.map_err(|cause| Failure::System { what: "no folder for the demo", cause })?;
        Ok(if keep { Folder::Kept(folder.keep()) } else { Folder::Passing(folder) })
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Passing(folder) => folder.path(),
            Folder::Kept(path) => path,
        }
    }
}

/// One day.
struct Demo<'a> {
    arguments: &'a DemoArgs,
    seed: u64,
    config: &'a Config,
    mishaps: &'a Mishaps,
    progress: &'a Progress,
}

impl Demo<'_> {
    async fn play(&self, service: &Service, folder: &Folder) -> Result<Exit, Failure> {
        let begun = Instant::now();
        let orders = usize::try_from(self.arguments.orders).unwrap_or(usize::MAX);
        let plan = Plan::draw(self.seed, orders)?;
        let (Some(address), Some(secrets)) = (service.address(), service.secrets()) else {
            return Err(Failure::Http("it does not listen".to_owned()));
        };
        let api = Arc::new(Api::sign_in(address, secrets, &plan.users(), plan.operator)?);
        let market = Market {
            api: Arc::clone(&api),
            operator: plan.operator,
            journal: Arc::<Journal>::default(),
            progress: self.progress.clone(),
        };
        // A reader of its own: what it finds is in the file.
        let looked = Looked::readable(&self.config.database).await?;
        let app = service.app();
        let day = Day { app, store: &looked.store, mishaps: self.mishaps, market: &market };
        let told = day.play(&plan).await.map_err(Failure::database(&looked.choice))?;

        self.progress.phase("reading the database", 0);
        let books =
            Books::read(&looked.store, &plan.users()).await.map_err(Failure::database(&looked.choice))?;
        let happened = self.mishaps.happened();
        let promises = verdict::judge(&Evidence {
            terms: Terms {
                orders,
                crowd: plan.crowd.len(),
                pending: self.config.rules.pending_timeout,
                bound: SLACK + SLACK_PER_ORDER * self.arguments.orders,
                outage: OUTAGE,
            },
            told: &told,
            books: &books,
            happened: &happened,
            takers: &takers(app),
            queued: settle::queued(app).await,
        });
        looked.store.close().await;
        let figures = Figures::of(&told, &books, &happened, begun.elapsed());
        let kept = match folder {
            Folder::Passing(_) => None,
            Folder::Kept(path) => Some(path.as_path()),
        };
        let report = Report::new(promises, figures, self.seed, orders, kept);
        self.progress.end();
        self.tell(&report, kept.map(|folder| report::greeting(folder, &api, &plan)))
    }

    /// The verdict goes to stdout, what is wrong to stderr; the exit code says the same.
    fn tell(&self, report: &Report, greeting: Option<String>) -> Result<Exit, Failure> {
        let form = self.arguments.output.output;
        say(&report.written(form))?;
        match (greeting, form) {
            (Some(greeting), Output::Table) => say(&greeting)?,
            // Stdout is one JSON document.
            (Some(greeting), Output::Json) => warn(&greeting),
            (None, Output::Table | Output::Json) => {}
        }
        let mut exit = Exit::Done;
        for broken in report.broken() {
            warn(&format!(
                "error: broken promise: {}: promised {}, found {}",
                broken.name, broken.promised, broken.found
            ));
            exit = Exit::Failed;
        }
        Ok(exit)
    }
}

impl From<Unplannable> for Failure {
    fn from(error: Unplannable) -> Failure {
        Failure::Usage { what: error.to_string(), remedy: "report this".to_owned() }
    }
}

/// Who takes which events.
fn takers(app: &App) -> Vec<Taker> {
    let taker = |subscriber: handover_outbox::consumers::Subscriber<Work>| Taker {
        consumer: subscriber.handler.name().to_owned(),
        takes: subscriber.handler.takes().iter().map(|kind| (*kind).to_owned()).collect(),
    };
    app.subscribers().into_iter().map(taker).collect()
}

/// A line on stderr. Whoever closed it does not want to know.
fn warn(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
