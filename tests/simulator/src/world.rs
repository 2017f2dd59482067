//! One run: processes on one store and one broker, actors, the fault phase, the recovery, and the final checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_memory::{MemoryBroker, VirtualClock};
use handover_outbox::ports::{Broker, Clock};
use handover_outbox::*;
use marketplace::handlers::standard;
use marketplace::idempotency::RequestSettings;
use marketplace::ports::MarketStore;
use marketplace::use_cases::{ListProduct, list_product};
use marketplace::*;
use marketplace_domain::{Money, Title};
use marketplace_memory::MemoryStore;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::actors::gateway_model::GatewayModel;
use super::actors::journal::{Journal, ListedProduct};
use super::actors::{self, ActorState, asset_grants, clients, environment, operators};
use super::coverage::Coverage;
use super::faults::{Fault, Faults};
use super::oracle::{self, Evidence};
use super::ports::Process;
use super::ports::broker::FaultyBroker;
use super::ports::clock::FaultyClock;
use super::ports::defects::{Defect, DefectiveBroker, DefectiveStore};
use super::ports::gateway::FaultyGateway;
use super::ports::store::FaultyStore;
use super::profile::Profile;
use super::random_numbers::RandomNumbers;
use super::run_settings::RunSettings;
use super::story::Line;

/// Maximum time until no work is pending after the end of the fault phase.
const IDLE_WITHIN: Duration = Duration::from_secs(180);
/// Maximum time of a clean stop during the fault phase.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which the ledger is checked.
const LEDGER_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Lease of an idempotency key: shorter than some requests take, so that leases expire.
const KEY_LEASE: Duration = Duration::from_secs(1);
/// Maximum number of times that operators redrive and replay everything.
const MAX_RECOVERIES: u32 = 4;
/// Share of the runs that are compared with a run without faults, in thousandths.
const COMPARED_PERMILLE: u64 = 100;

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Seed of all random decisions.
    pub seed: u64,
    pub profile: Profile,
    /// Maximum length of the fault phase in virtual time. Until that time the run equals the run without this limit.
    pub until: Option<Duration>,
    /// Whether the log is recorded.
    pub story: bool,
    /// A defect of the adapters, which the oracle must detect; `None` in a run that tests the application.
    pub defect: Option<Defect>,
}

impl Run {
    /// A complete run without a log.
    pub fn new(seed: u64, profile: Profile) -> Run {
        Run { seed, profile, until: None, story: false, defect: None }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Violated invariants; empty if the application is correct.
    pub violations: Vec<String>,
    /// Number of orders.
    pub orders: usize,
    /// Number of events.
    pub events: usize,
    /// Length of the fault phase, in virtual time.
    pub fault_duration: Duration,
    pub coverage: Coverage,
    /// The log, if it was recorded.
    pub story: Vec<Line>,
}

/// Executes one run on a separate runtime with one thread and virtual time.
pub fn play(run: Run) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime on this thread");
    runtime.block_on(async move { World::new(run).play(run.until).await })
}

struct World {
    faults: Faults,
    store: MemoryStore,
    broker: MemoryBroker,
    slots: Vec<Slot>,
    clocks: Vec<FaultyClock>,
    journal: Journal,
    gateway_model: GatewayModel,
    consumers: Arc<BTreeMap<&'static str, &'static str>>,
    run_settings: RunSettings,
    defect: Option<Defect>,
}

/// A slot runs one process at a time.
struct Slot {
    app: Mutex<App>,
    killed: Arc<Notify>,
}

impl World {
    fn new(run: Run) -> World {
        let random = RandomNumbers::new(run.seed);
        let run_settings = RunSettings::of(&random);
        let faults = Faults::new(random.fork(), run.profile, run.story);
        let start = chrono::DateTime::from_timestamp(1_770_000_000, 0).expect("a valid timestamp");
        let clock = VirtualClock::new(start);
        let port: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = MemoryStore::new(Arc::clone(&port), WakeupNotifier::default());
        let broker = MemoryBroker::new(port);
        let processes = if faults.random.permille(150) { 3 } else { 2 };
        let clocks = (0..processes).map(|_| FaultyClock::new(clock.with_own_skew())).collect();
        let journal = Journal::new(faults.clone());
        let gateway_model = GatewayModel::new(faults.clone());
        let mut world = World {
            faults,
            store,
            broker,
            slots: Vec::new(),
            clocks,
            journal,
            gateway_model,
            consumers: Arc::default(),
            run_settings,
            defect: run.defect,
        };
        let (app, ..) = world.process(0, &Arc::default());
        world.consumers = Arc::new(standard(&app).iter().map(|s| (s.queue, s.handler.name())).collect());
        for slot in 0..processes {
            let killed = Arc::default();
            let (app, _) = world.process(slot, &killed);
            world.slots.push(Slot { app: Mutex::new(app), killed });
        }
        world
    }

    /// Creates a process for this slot, with its own tasks, wake-ups and ids on the shared store and broker.
    fn process(&self, slot: usize, killed: &Arc<Notify>) -> (App, WakeupNotifier) {
        let (wake, tasks) = (WakeupNotifier::default(), Tasks::default());
        let process = Process {
            name: format!("process {slot}").into(),
            faults: self.faults.clone(),
            tasks: tasks.clone(),
            on_failed: self.run_settings.on_failed,
            on_outage: self.run_settings.settings.relay.on_outage,
            consumers: Arc::clone(&self.consumers),
            killed: Arc::clone(killed),
        };
        let inner: Arc<MarketStore> = Arc::new(self.store.for_process(wake.clone()));
        let clock = self.clocks.get(slot).expect("a clock for each slot");
        let store = FaultyStore { inner, process: process.clone(), flavour: self.run_settings.flavour };
        let store: Arc<MarketStore> = match self.defect {
            Some(defect) => Arc::new(DefectiveStore { inner: store, defect }),
            None => Arc::new(store),
        };
        let tx = Transactor {
            store,
            tasks,
            clock: Arc::new(clock.clone()),
            random: Arc::new(self.faults.random.clone()),
            policy: TxPolicy::default(),
        };
        let broker = FaultyBroker {
            inner: Arc::new(self.broker.clone()),
            process: process.clone(),
            plain: Arc::new(self.store.clone()),
        };
        let broker: Arc<dyn Broker> = match self.defect {
            Some(defect) => Arc::new(DefectiveBroker { inner: broker, defect }),
            None => Arc::new(broker),
        };
        let gateway = FaultyGateway { gateway_model: self.gateway_model.clone(), process };
        let requests = RequestSettings { lease: KEY_LEASE, ..RequestSettings::default() };
        let app = App::new(tx, broker, self.run_settings.rules()).with_requests(requests);
        (app.with_gateway(Arc::new(gateway)), wake)
    }

    async fn play(self, until: Option<Duration>) -> Outcome {
        // The gateway's reports and the ledger checks also run during the final checks.
        tokio::select! {
            biased;
            outcome = self.execute(until) => outcome,
            () = self.reports() => unreachable!("the reports of the gateway never end"),
            () = self.audits() => unreachable!("the ledger checks never end"),
        }
    }

    async fn execute(&self, until: Option<Duration>) -> Outcome {
        self.set_up().await;
        let begun = Instant::now();
        let max_length = Duration::from_secs(4 + self.faults.random.below(5));
        let max_length = until.map_or(max_length, |until| until.min(max_length));
        let plain_app = self.plain_app();
        let fault_phase = async {
            let slots = (0..self.slots.len()).map(|slot| self.supervise(slot));
            tokio::join!(
                join_all(slots),
                environment::disturb_broker(&self.faults, &self.broker),
                environment::disturb_clocks(&self.faults, &self.clocks, &self.store),
                environment::delete_rows(&plain_app, &self.faults, &self.store),
                self.clients(),
                self.operators(),
            );
        };
        let _ = tokio::time::timeout(max_length, fault_phase).await;
        let fault_duration = begun.elapsed();
        self.heal().await;
        let mut violations = self.check_when_idle(false).await;
        if violations.is_empty() {
            violations.extend(self.recover().await);
            if violations.is_empty() && self.faults.random.permille(COMPARED_PERMILLE) {
                // A stalled call may still commit a change, which would be missing in the reference run.
                self.faults.wait_for_stalled_calls().await;
                violations.extend(self.check_when_idle(true).await);
                let differences = oracle::differences(&self.evidence(true)).await;
                violations.extend(
                    differences.unwrap_or_else(|error| vec![format!("the reference run failed: {error}")]),
                );
            }
        }
        violations.splice(0..0, self.faults.violations());
        let coverage = self.faults.coverage();
        let (orders, events) =
            oracle::sizes(&self.evidence(true)).await.expect("the plain store has no faults");
        for slot in 0..self.slots.len() {
            self.app(slot).tx.tasks.kill();
            self.app(slot).tx.tasks.ended().await;
        }
        self.faults
            .note("world", || format!("ends with {orders} orders, {events} events and {violations:?}"));
        Outcome { violations, orders, events, fault_duration, coverage, story: self.faults.story() }
    }

    /// Lists products, grants assets and starts the processes, without faults.
    async fn set_up(&self) {
        let seller_app = self.plain_app();
        service::prepare(&seller_app).await.expect("the start has no faults");
        // Longer than the clock skew: a consumer ignores events created before its first subscription.
        self.faults.sleep(Duration::from_secs(10)).await;
        let random = &self.faults.random;
        for number in 0..6 + random.below(8) {
            let [first, second] = actors::tenants();
            let tenant = if number % 3 == 2 { second } else { first };
            let seller = actors::user(200 + number % 4);
            let title = Title::try_from(format!("thing {number}")).expect("a valid title");
            let price = Money::from_minor(8_850).expect("a valid price");
            let command = ListProduct { title, price };
            let listed =
                list_product(&seller_app, &actors::by_user(&self.faults, tenant, seller), command).await;
            self.journal.add_product(ListedProduct {
                tenant,
                id: listed.expect("listing has no faults").id,
                seller,
                price,
            });
        }
        asset_grants::grant_at_begin(&seller_app, &self.faults, &self.journal).await;
        for slot in 0..self.slots.len() {
            self.start(slot);
        }
    }

    /// The application without faults.
    fn plain_app(&self) -> App {
        let app = self.app(0);
        let tx =
            Transactor { store: Arc::new(self.store.clone()), tasks: Tasks::default(), ..app.tx.clone() };
        App::new(tx, Arc::new(self.broker.clone()), (*app.rules).clone())
    }

    fn app(&self, slot: usize) -> App {
        let slot = self.slots.get(slot).expect("the slot exists");
        slot.app.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start(&self, slot: usize) {
        let slot_state = self.slots.get(slot).expect("the slot exists");
        let (app, wake) = self.process(slot, &slot_state.killed);
        service::start(&app, &wake, service::Roles::ALL, &self.run_settings.settings);
        self.faults.note("world", || format!("process {slot} starts"));
        *slot_state.app.lock().unwrap_or_else(PoisonError::into_inner) = app;
    }

    /// Kills or stops the process of a slot at random times, and restarts it after that or after a crash.
    async fn supervise(&self, slot: usize) {
        let (faults, killed) = (&self.faults, &self.slots.get(slot).expect("the slot exists").killed);
        loop {
            let wait = faults.random.millis(500..4_000);
            let crashed = tokio::time::timeout(wait, killed.notified()).await.is_ok();
            let app = self.app(slot);
            if crashed {
                faults.note("world", || format!("process {slot} has crashed"));
            } else if faults.occurs(Fault::Killed) {
                faults.note("world", || format!("process {slot} is killed"));
                app.tx.tasks.kill();
            } else if faults.occurs(Fault::Restarted) {
                faults.note("world", || format!("process {slot} is stopped"));
                if tokio::time::timeout(STOP_TIMEOUT, app.tx.tasks.stop()).await.is_err() {
                    faults.violation(format!("process {slot} does not stop"));
                }
                app.tx.tasks.kill();
            } else {
                continue;
            }
            app.tx.tasks.ended().await;
            faults.sleep(faults.random.millis(0..300)).await;
            self.start(slot);
        }
    }

    /// The gateway reports refund results to a random process.
    async fn reports(&self) {
        loop {
            let refund = self.gateway_model.next_report().await;
            let app = self.app(self.faults.random.index(self.slots.len()));
            let (gateway_model, journal) = (self.gateway_model.clone(), self.journal.clone());
            #[allow(clippy::disallowed_methods, reason = "not a task of a simulated process")]
            drop(tokio::spawn(gateway_model.report(app, journal, refund)));
        }
    }

    /// Checks the ledger periodically.
    async fn audits(&self) {
        loop {
            self.faults.sleep(LEDGER_CHECK_INTERVAL).await;
            for violation in
                oracle::ledger_violations(&self.store).await.expect("the plain store has no faults")
            {
                self.faults.violation(violation);
            }
        }
    }

    async fn clients(&self) {
        let actor_state = ActorState {
            faults: self.faults.clone(),
            journal: self.journal.clone(),
            gateway_model: self.gateway_model.clone(),
        };
        let client = || async {
            for _ in 0..3 + self.faults.random.below(7) {
                let slot = self.faults.random.index(self.slots.len());
                clients::act(&self.app(slot), &actor_state).await;
                self.faults.sleep(self.faults.random.millis(0..800)).await;
            }
        };
        tokio::join!(client(), client(), client(), client());
    }

    async fn operators(&self) {
        loop {
            self.faults.sleep(self.faults.random.millis(300..1_500)).await;
            let slot = self.faults.random.index(self.slots.len());
            // A process that crashes does not respond, so the call needs a timeout.
            let app = self.app(slot);
            let patience = Duration::from_secs(10);
            let _ = tokio::time::timeout(patience, operators::act(&app, &self.faults, &self.journal)).await;
        }
    }

    async fn heal(&self) {
        self.faults.heal();
        self.broker.set_reachable(true);
        self.broker.set_blocked(None);
        self.clocks.iter().for_each(FaultyClock::heal);
        for slot in 0..self.slots.len() {
            // The fault phase may have ended between a crash and the restart, or during a stop.
            let tasks = self.app(slot).tx.tasks;
            if tasks.is_killed() || tasks.stopping().is_cancelled() {
                tasks.kill();
                tasks.ended().await;
                self.start(slot);
            }
        }
    }

    fn evidence(&self, recovered: bool) -> Evidence {
        Evidence {
            store: Arc::new(self.store.clone()),
            broker: Arc::new(self.broker.clone()),
            app: self.plain_app(),
            journal: self.journal.clone(),
            gateway_model: self.gateway_model.clone(),
            faults: self.faults.clone(),
            recovered,
        }
    }

    /// Operators redrive and replay everything, several times because one replay can enable another: a dead commit of
    /// an asset succeeds only after its lock has been replayed.
    async fn recover(&self) -> Vec<String> {
        let evidence = self.evidence(true);
        let mut pending = Vec::new();
        for _ in 0..MAX_RECOVERIES {
            operators::recover(&self.app(0), &self.faults, &self.journal).await;
            pending = self.wait_until_idle(&evidence).await;
            while operators::release_unpublishable(&self.app(0), &self.faults).await {
                pending = self.wait_until_idle(&evidence).await;
            }
            let open_dead_letters =
                oracle::open_dead_letters(&self.store).await.expect("the plain store has no faults");
            if !pending.is_empty() || open_dead_letters == 0 {
                break;
            }
        }
        self.check(&evidence, pending).await
    }

    /// Waits until no work is pending and checks every invariant.
    async fn check_when_idle(&self, recovered: bool) -> Vec<String> {
        let evidence = self.evidence(recovered);
        let pending = self.wait_until_idle(&evidence).await;
        self.check(&evidence, pending).await
    }

    /// Returns the violations: work that is still pending, and violated invariants.
    async fn check(&self, evidence: &Evidence, pending: Vec<String>) -> Vec<String> {
        let mut violations: Vec<String> = pending.into_iter().map(|what| format!("stuck: {what}")).collect();
        violations.extend(oracle::violations(evidence).await.expect("the plain store has no faults"));
        violations
    }

    /// Waits until no work is pending; returns what is still pending after [`IDLE_WITHIN`].
    async fn wait_until_idle(&self, evidence: &Evidence) -> Vec<String> {
        let deadline = Instant::now() + IDLE_WITHIN;
        let mut idle_checks = 0;
        loop {
            let limit = if Instant::now() > deadline { 20 } else { 1 };
            let pending = oracle::unsettled(evidence, limit).await.expect("the plain store has no faults");
            // Two checks: a call that began in the fault phase may commit after the first one.
            idle_checks = if pending.is_empty() { idle_checks + 1 } else { 0 };
            if idle_checks > 1 || limit > 1 {
                return pending;
            }
            self.faults.sleep(Duration::from_millis(500)).await;
        }
    }
}

/// Runs the futures concurrently until all have finished.
async fn join_all(players: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut players: Vec<_> = players.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        players.retain_mut(|player| player.as_mut().poll(context).is_pending());
        if players.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
