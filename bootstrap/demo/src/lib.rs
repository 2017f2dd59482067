//! `demo`: a self-verifying market day. It starts a service, trades through its HTTP API while it injects message
//! faults and a broker outage, and then compares the database with the guarantees.
//!
//! **Invariant:** the demo reads no configuration and writes no file outside its own folder.

mod args;
mod broker_faults;
mod client;
mod database_snapshot;
mod day;
mod faulty_broker;
mod figures;
mod gateway_switch;
mod journal;
mod market;
mod past_months;
mod plan;
mod random_numbers;
mod report;
mod settings;
mod verdict;
mod wait;
mod webhook_receiver;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::RandomSource;
use handover_system::OsRandom;
use marketplace::App;
use marketplace::consumer::Consumer;
use marketplace_sql::SqlMarket;
use tempfile::TempDir;
use tokio::time::Instant;

pub use args::{DemoArgs, HELP};
use broker_faults::BrokerFaults;
use client::Api;
use database_snapshot::DatabaseSnapshot;
use day::Day;
use figures::Figures;
use gateway_switch::GatewaySwitch;
use handover_runtime::roles::Roles;
use handover_runtime::signals::{STOP_WITHIN, StopSignals};
use handover_runtime::stores::AttachedDatabase;
use handover_runtime::terminal::Output;
use handover_runtime::terminal::progress::Progress;
use handover_runtime::terminal::{note, say_later};
use handover_runtime::{Exit, Failure, telemetry};
use journal::Journal;
use market::Market;
use marketplace_wiring::adapters::{AdapterWrappers, PARTS};
use marketplace_wiring::settings::Config;
use marketplace_wiring::{ROLES, Service};
use past_months::PastMonths;
use plan::{InvalidPlan, Plan};
use report::Report;
use verdict::{ConsumerEvents, Evidence, Expectations};
use webhook_receiver::WebhookReceiver;

/// Maximum delay between the deadline of an unpaid order and its cancellation. A timeout message cancels the order
/// shortly after the outage ends, on a busy machine within seconds; the sweep, which runs every ten minutes, must not
/// cancel any order. The limit lies between these two times: a slow machine does not exceed it, the sweep would.
const CANCEL_DELAY_LIMIT: Duration = Duration::from_secs(30);
/// Addition to [`CANCEL_DELAY_LIMIT`] for each order of the day: orders are placed faster than their events are
/// settled.
const CANCEL_DELAY_LIMIT_PER_ORDER: Duration = Duration::from_millis(1);
/// Random seeds are below this limit, so that a person can type them.
const RANDOM_SEED_LIMIT: u64 = 1_000_000_000;

/// Plays the day, verifies the database and prints the report.
pub async fn run(arguments: &DemoArgs) -> Result<Exit, Failure> {
    let mut signals = StopSignals::listen()?;
    let folder = Folder::make(arguments.keep)?;
    let config = settings::write(folder.path(), arguments.orders)?;
    let log = File::create(folder.path().join("demo.log"))
        .map_err(|cause| Failure::System { what: "cannot create the log file of the demo", cause })?;
    telemetry::install_to_file(&config.log, log);
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => OsRandom::seeded()?.next() % RANDOM_SEED_LIMIT,
    };
    let faults = BrokerFaults::default();
    let gateway_switch = GatewaySwitch::default();
    let wrappers = AdapterWrappers {
        broker: Box::new({
            let faults = faults.clone();
            move |broker| faulty_broker::with_faults(broker, faults)
        }),
        gateway: Box::new({
            let gateway_switch = gateway_switch.clone();
            move |gateway| gateway_switch.wrap(gateway)
        }),
    };
    let orders = usize::try_from(arguments.orders).unwrap_or(usize::MAX);
    let plan = Plan::draw(seed, orders)?;
    let journal = Arc::<Journal>::default();
    let receiver = WebhookReceiver::start().await?;
    let past = past_months::play(&config, &plan, &journal, &receiver).await?;
    let mut service = Service::start_with_wrappers(&config, &Roles::all(&ROLES), wrappers).await?;
    let progress = Progress::start()?;
    progress.print_line(&format!("seed {seed}, log in {}", folder.path().join("demo.log").display()));
    let played = async {
        let demo = Demo {
            arguments,
            seed,
            config: &config,
            faults: &faults,
            progress: &progress,
            plan: &plan,
            past: &past,
            receiver: &receiver,
        };
        let exit = demo.play(&service, journal, &folder).await;
        gateway_switch.enable();
        exit
    };
    let ended = tokio::select! {
        biased;
        name = signals.next() => Ended::Stopped(name),
        played = played => Ended::Played(played),
    };
    progress.end();
    let exit = match ended {
        Ended::Stopped(name) => {
            note(&format!("{name}: demo interrupted; nothing was verified"));
            Ok(Exit::Failed)
        }
        Ended::Played(Err(failure)) => Err(failure),
        Ended::Played(Ok(exit)) if arguments.keep => tokio::select! {
            _ = signals.next() => Ok(exit),
            failure = service.failed() => Err(failure),
        },
        Ended::Played(Ok(exit)) => Ok(exit),
    };
    tokio::select! {
        ended = service.stop(STOP_WITHIN) => ended?,
        // A second signal: do not wait; the rest of the service ends with the process.
        _ = signals.next() => {}
    }
    exit
}

enum Ended {
    /// A signal with this name interrupted the day.
    Stopped(&'static str),
    Played(Result<Exit, Failure>),
}

/// The folder of the demo; removed at the end unless `--keep` is given.
enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn make(keep: bool) -> Result<Folder, Failure> {
        let made = tempfile::Builder::new().prefix("handover-demo-").tempdir();
        let folder = made.map_err(|cause| Failure::System {
            what: "cannot create a temporary folder for the demo",
            cause,
        })?;
        Ok(if keep { Folder::Kept(folder.keep()) } else { Folder::Temporary(folder) })
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Temporary(folder) => folder.path(),
            Folder::Kept(path) => path,
        }
    }
}

struct Demo<'a> {
    arguments: &'a DemoArgs,
    seed: u64,
    config: &'a Config,
    faults: &'a BrokerFaults,
    progress: &'a Progress,
    plan: &'a Plan,
    past: &'a PastMonths,
    receiver: &'a WebhookReceiver,
}

impl Demo<'_> {
    async fn play(&self, service: &Service, journal: Arc<Journal>, folder: &Folder) -> Result<Exit, Failure> {
        let begun = Instant::now();
        let Demo { plan, past, receiver, .. } = *self;
        let api = Arc::new(Api::of(service, plan)?);
        let market = Market {
            api: Arc::clone(&api),
            operator: plan.operator,
            journal,
            progress: self.progress.clone(),
        };
        // A separate connection: it sees only what was committed to the file.
        let read_only = AttachedDatabase::readable(&self.config.database, PARTS).await?;
        let app = service.app();
        let store = SqlMarket::on(read_only.store.clone());
        let day = Day { app, store: &store, faults: self.faults, market: &market, past };
        let clients = day.play(plan).await.map_err(Failure::database(&read_only.choice))?;

        self.progress.phase("reading the database", 0);
        let database = DatabaseSnapshot::read(&store, &plan.users())
            .await
            .map_err(Failure::database(&read_only.choice))?;
        let injected = self.faults.injected();
        let promises = verdict::check_all(&Evidence {
            expected: Expectations {
                orders: plan.deals.len() + 1 + past.orders,
                lamp_buyers: plan.lamp_buyers.len(),
                payment_timeout: self.config.rules.pending_timeout,
                cancel_delay_limit: CANCEL_DELAY_LIMIT + CANCEL_DELAY_LIMIT_PER_ORDER * self.arguments.orders,
                outage: day::OUTAGE,
                invoices: past.months.len(),
            },
            clients: &clients,
            database: &database,
            injected: &injected,
            consumers: &consumers(app),
            queued: wait::queued(app).await,
            webhooks: &receiver.record(),
        });
        read_only.store.close().await;
        let figures = Figures::of(&clients, &database, &injected, past.ended, begun.elapsed());
        let kept = match folder {
            Folder::Temporary(_) => None,
            Folder::Kept(path) => Some(path.as_path()),
        };
        let report = Report::new(promises, figures, self.seed, plan.deals.len() + 1, kept);
        self.progress.end();
        self.print_report(&report, kept.map(|folder| report::instructions(folder, &api, plan))).await
    }

    /// Prints the report to stdout and broken promises to stderr; the exit code is 1 if a promise is broken.
    async fn print_report(&self, report: &Report, instructions: Option<String>) -> Result<Exit, Failure> {
        let format = self.arguments.output.output;
        say_later(report.render(format)).await?;
        match (instructions, format) {
            (Some(instructions), Output::Table) => say_later(instructions).await?,
            // Stdout is one JSON document.
            (Some(instructions), Output::Json) => note(&instructions),
            (None, Output::Table | Output::Json) => {}
        }
        let mut exit = Exit::Done;
        for broken in report.broken() {
            note(&format!(
                "error: broken promise: {}: promised {}, found {}",
                broken.name, broken.promised, broken.found
            ));
            exit = Exit::Failed;
        }
        Ok(exit)
    }
}

impl From<InvalidPlan> for Failure {
    fn from(error: InvalidPlan) -> Failure {
        Failure::Usage { what: error.to_string(), remedy: "this is a bug; report it".to_owned() }
    }
}

/// The consumers of the service with the event types they subscribe to.
fn consumers(app: &App) -> Vec<ConsumerEvents> {
    let consumer = |consumer: &Arc<dyn Consumer>| ConsumerEvents {
        name: consumer.name().to_owned(),
        event_types: consumer.event_types().into_iter().map(str::to_owned).collect(),
    };
    app.consumers.iter().map(consumer).collect()
}
