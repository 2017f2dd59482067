//! One run: processes on one store and one broker, actors, trouble, healing, quiet, and the oracle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_memory::{MemoryBroker, VirtualClock};
use handover_outbox::ports::Clock;
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

use super::actors::bank::Bank;
use super::actors::journal::{Journal, Listed};
use super::actors::{self, Scene, clients, gifts, operators, weather};
use super::coverage::Coverage;
use super::dice::Dice;
use super::faults::{Fault, Faults};
use super::oracle::{self, Evidence};
use super::ports::Process;
use super::ports::broker::FaultyBroker;
use super::ports::clock::FaultyClock;
use super::ports::gateway::FaultyGateway;
use super::ports::store::FaultyStore;
use super::profile::Profile;
use super::setting::Setting;
use super::story::Line;

/// How long everything may take to come to rest once nothing goes wrong any more.
const QUIET_WITHIN: Duration = Duration::from_secs(180);
/// How long a process may take to stop when asked to, on a bad day.
const STOPS_WITHIN: Duration = Duration::from_secs(120);
/// How often somebody looks at the ledger.
const AUDITED_EVERY: Duration = Duration::from_secs(3);
/// How long whoever is at work on a request keeps repeats away: shorter than some are at work.
const KEY_LEASE: Duration = Duration::from_secs(1);
/// How often operators give everything another chance.
const TIDIED: u32 = 4;
/// How many in 1,000 days are compared with the same day without trouble.
const COMPARED: u64 = 100;

/// Which bad day is played, and how.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Every choice is drawn from it.
    pub seed: u64,
    /// The kind of day.
    pub profile: Profile,
    /// Trouble ends at the latest after this long, in virtual time: until then the run is the same as without.
    pub until: Option<Duration>,
    /// Whether the story is kept.
    pub story: bool,
}

impl Run {
    /// A day of this kind, played whole and without its story.
    pub fn new(seed: u64, profile: Profile) -> Run {
        Run { seed, profile, until: None, story: false }
    }
}

/// What a run ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The promises that were broken; none on a good product.
    pub violations: Vec<String>,
    /// How many orders there were.
    pub orders: usize,
    /// How many events.
    pub events: usize,
    /// How long there was trouble, in virtual time.
    pub trouble: Duration,
    /// Where it got to.
    pub coverage: Coverage,
    /// Who did what when, if it was asked for.
    pub story: Vec<Line>,
}

/// Plays one run in a runtime of its own: one thread, virtual time.
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
    bank: Bank,
    consumers: Arc<BTreeMap<&'static str, &'static str>>,
    setting: Setting,
}

/// Where a process runs: one at a time.
struct Slot {
    app: Mutex<App>,
    killed: Arc<Notify>,
}

impl World {
    fn new(run: Run) -> World {
        let dice = Dice::new(run.seed);
        let setting = Setting::of(&dice);
        let faults = Faults::new(dice.fork(), run.profile, run.story);
        let start = chrono::DateTime::from_timestamp(1_770_000_000, 0).expect("a moment in 2026");
        let clock = VirtualClock::new(start);
        let port: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = MemoryStore::new(Arc::clone(&port), Wake::default());
        let broker = MemoryBroker::new(port);
        let processes = if faults.dice.permille(150) { 3 } else { 2 };
        let clocks = (0..processes).map(|_| FaultyClock::new(clock.another())).collect();
        let journal = Journal::new(faults.clone());
        let bank = Bank::new(faults.clone());
        let (slots, consumers) = (Vec::new(), Arc::default());
        let mut world = World { faults, store, broker, slots, clocks, journal, bank, consumers, setting };
        let (app, ..) = world.process(0, &Arc::default());
        world.consumers = Arc::new(standard(&app).iter().map(|s| (s.queue, s.handler.name())).collect());
        for slot in 0..processes {
            let killed = Arc::default();
            let (app, _) = world.process(slot, &killed);
            world.slots.push(Slot { app: Mutex::new(app), killed });
        }
        world
    }

    /// A new process in this slot: its own tasks, bell and ids on the shared store and broker.
    fn process(&self, slot: usize, killed: &Arc<Notify>) -> (App, Wake) {
        let (wake, tasks) = (Wake::default(), Tasks::default());
        let process = Process {
            name: format!("process {slot}").into(),
            faults: self.faults.clone(),
            tasks: tasks.clone(),
            on_failed: self.setting.on_failed,
            on_outage: self.setting.settings.relay.on_outage,
            consumers: Arc::clone(&self.consumers),
            killed: Arc::clone(killed),
        };
        let inner: Arc<MarketStore> = Arc::new(self.store.for_process(wake.clone()));
        let clock = self.clocks.get(slot).expect("a clock for each slot");
        let tx = Transactor {
            store: Arc::new(FaultyStore { inner, process: process.clone(), flavour: self.setting.flavour }),
            tasks,
            clock: Arc::new(clock.clone()),
            chance: Arc::new(self.faults.dice.clone()),
            policy: TxPolicy::default(),
        };
        let broker = FaultyBroker {
            inner: Arc::new(self.broker.clone()),
            process: process.clone(),
            plain: Arc::new(self.store.clone()),
        };
        let gateway = FaultyGateway { bank: self.bank.clone(), process };
        let requests = RequestSettings { lease: KEY_LEASE, ..RequestSettings::default() };
        let app = App::new(tx, Arc::new(broker), self.setting.rules()).with_requests(requests);
        (app.with_gateway(Arc::new(gateway)), wake)
    }

    async fn play(self, until: Option<Duration>) -> Outcome {
        // On the good day that ends the run the gateway still reports.
        tokio::select! {
            biased;
            outcome = self.day(until) => outcome,
            () = self.reports() => unreachable!("the gateway never closes"),
            () = self.audits() => unreachable!("nor do its auditors go home"),
        }
    }

    async fn day(&self, until: Option<Duration>) -> Outcome {
        self.open().await;
        let begun = Instant::now();
        let horizon = Duration::from_secs(4 + self.faults.dice.below(5));
        let horizon = until.map_or(horizon, |until| until.min(horizon));
        let plain = self.plain_app();
        let trouble = async {
            let slots = (0..self.slots.len()).map(|slot| self.supervise(slot));
            tokio::join!(
                join_all(slots),
                weather::of_the_broker(&self.faults, &self.broker),
                weather::of_the_clocks(&self.faults, &self.clocks, &self.store),
                weather::of_the_outbox(&plain, &self.faults, &self.store),
                self.clients(),
                self.operators(),
            );
        };
        let _ = tokio::time::timeout(horizon, trouble).await;
        let trouble = begun.elapsed();
        self.heal().await;
        let mut violations = self.settle(false).await;
        if violations.is_empty() {
            violations.extend(self.tidy_up().await);
            if violations.is_empty() && self.faults.dice.permille(COMPARED) {
                // What is done only now would be missing in what the good day repeats.
                self.faults.stalls_end().await;
                violations.extend(self.settle(true).await);
                let differences = oracle::differences(&self.evidence(true)).await;
                violations
                    .extend(differences.unwrap_or_else(|error| vec![format!("a good day refused: {error}")]));
            }
        }
        violations.splice(0..0, self.faults.violations());
        let coverage = self.faults.coverage();
        let (orders, events) = oracle::sizes(&self.evidence(true)).await.expect("the plain store answers");
        for slot in 0..self.slots.len() {
            self.app(slot).tx.tasks.kill();
            self.app(slot).tx.tasks.ended().await;
        }
        self.faults
            .note("world", || format!("ends with {orders} orders, {events} events and {violations:?}"));
        Outcome { violations, orders, events, trouble, coverage, story: self.faults.story() }
    }

    /// Products and the first start, before anything goes wrong.
    async fn open(&self) {
        let seller_app = self.plain_app();
        service::prepare(&seller_app).await.expect("a healthy start");
        // Longer than clocks are off: what is created before a consumer first subscribed is history to it.
        self.faults.sleep(Duration::from_secs(10)).await;
        let dice = &self.faults.dice;
        for number in 0..6 + dice.below(8) {
            let [first, second] = actors::tenants();
            let tenant = if number % 3 == 2 { second } else { first };
            let seller = actors::user(200 + number % 4);
            let title = Title::try_from(format!("thing {number}")).expect("a legal title");
            let price = Money::from_minor(8_850).expect("a legal price");
            let command = ListProduct { title, price };
            let listed =
                list_product(&seller_app, &actors::by_user(&self.faults, tenant, seller), command).await;
            self.journal.add_product(Listed {
                tenant,
                id: listed.expect("a healthy store lists").id,
                seller,
                price,
            });
        }
        gifts::of_the_morning(&seller_app, &self.faults, &self.journal).await;
        for slot in 0..self.slots.len() {
            self.start(slot);
        }
    }

    /// The application past all faults.
    fn plain_app(&self) -> App {
        let app = self.app(0);
        let tx =
            Transactor { store: Arc::new(self.store.clone()), tasks: Tasks::default(), ..app.tx.clone() };
        App::new(tx, Arc::new(self.broker.clone()), (*app.rules).clone())
    }

    fn app(&self, slot: usize) -> App {
        let slot = self.slots.get(slot).expect("there is such a slot");
        slot.app.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start(&self, slot: usize) {
        let place = self.slots.get(slot).expect("there is such a slot");
        let (app, wake) = self.process(slot, &place.killed);
        service::start(&app, &wake, service::Roles::ALL, &self.setting.settings);
        self.faults.note("world", || format!("process {slot} starts"));
        *place.app.lock().unwrap_or_else(PoisonError::into_inner) = app;
    }

    /// Starts a process anew whenever it was killed, at a point or wherever its tasks had got to, or asked to stop.
    async fn supervise(&self, slot: usize) {
        let (faults, killed) = (&self.faults, &self.slots.get(slot).expect("there is such a slot").killed);
        loop {
            let wait = faults.dice.millis(500..4_000);
            let died = tokio::time::timeout(wait, killed.notified()).await.is_ok();
            let app = self.app(slot);
            if died {
                faults.note("world", || format!("process {slot} has died"));
            } else if faults.strikes(Fault::Killed) {
                faults.note("world", || format!("process {slot} is killed"));
                app.tx.tasks.kill();
            } else if faults.strikes(Fault::Restarted) {
                faults.note("world", || format!("process {slot} is asked to stop"));
                if tokio::time::timeout(STOPS_WITHIN, app.tx.tasks.stop()).await.is_err() {
                    faults.violation(format!("process {slot} does not stop"));
                }
                app.tx.tasks.kill();
            } else {
                continue;
            }
            app.tx.tasks.ended().await;
            faults.sleep(faults.dice.millis(0..300)).await;
            self.start(slot);
        }
    }

    /// The gateway reports what it has paid back, to whichever process it finds.
    async fn reports(&self) {
        loop {
            let refund = self.bank.next_report().await;
            let app = self.app(self.faults.dice.index(self.slots.len()));
            let (bank, journal) = (self.bank.clone(), self.journal.clone());
            #[allow(clippy::disallowed_methods, reason = "it is no task of a process")]
            drop(tokio::spawn(bank.report(app, journal, refund)));
        }
    }

    /// Now and then somebody looks whether the ledger adds up.
    async fn audits(&self) {
        loop {
            self.faults.sleep(AUDITED_EVERY).await;
            for flaw in oracle::flaws(&self.store).await.expect("the plain store answers") {
                self.faults.violation(flaw);
            }
        }
    }

    async fn clients(&self) {
        let scene =
            Scene { faults: self.faults.clone(), journal: self.journal.clone(), bank: self.bank.clone() };
        let client = || async {
            for _ in 0..3 + self.faults.dice.below(7) {
                let slot = self.faults.dice.index(self.slots.len());
                clients::act(&self.app(slot), &scene).await;
                self.faults.sleep(self.faults.dice.millis(0..800)).await;
            }
        };
        tokio::join!(client(), client(), client(), client());
    }

    async fn operators(&self) {
        loop {
            self.faults.sleep(self.faults.dice.millis(300..1_500)).await;
            let slot = self.faults.dice.index(self.slots.len());
            // A process that dies under the operator answers nothing.
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
            // The trouble may have ended between a crash and the start after it, or in the middle of a stop.
            let tasks = self.app(slot).tx.tasks;
            if tasks.is_killed() || tasks.stopping().is_cancelled() {
                tasks.kill();
                tasks.ended().await;
                self.start(slot);
            }
        }
    }

    fn evidence(&self, tidied: bool) -> Evidence {
        Evidence {
            store: Arc::new(self.store.clone()),
            broker: Arc::new(self.broker.clone()),
            app: self.plain_app(),
            journal: self.journal.clone(),
            bank: self.bank.clone(),
            faults: self.faults.clone(),
            tidied,
        }
    }

    /// Operators give everything another chance, as often as one may help another: an asset that was given up can be
    /// committed when its lock has been replayed.
    async fn tidy_up(&self) -> Vec<String> {
        let evidence = self.evidence(true);
        let mut open = Vec::new();
        for _ in 0..TIDIED {
            operators::tidy_up(&self.app(0), &self.faults, &self.journal).await;
            open = self.rest(&evidence).await;
            while operators::release_misled(&self.app(0), &self.faults).await {
                open = self.rest(&evidence).await;
            }
            let letters = oracle::open_letters(&self.store).await.expect("the plain store answers");
            if !open.is_empty() || letters == 0 {
                break;
            }
        }
        self.judge(&evidence, open).await
    }

    /// Waits until all is quiet and holds it against every promise.
    async fn settle(&self, tidied: bool) -> Vec<String> {
        let evidence = self.evidence(tidied);
        let open = self.rest(&evidence).await;
        self.judge(&evidence, open).await
    }

    /// What is not quiet, and every promise that does not hold.
    async fn judge(&self, evidence: &Evidence, open: Vec<String>) -> Vec<String> {
        let mut violations: Vec<String> = open.into_iter().map(|what| format!("stuck: {what}")).collect();
        violations.extend(oracle::violations(evidence).await.expect("the plain store answers"));
        violations
    }

    /// Waits until all is quiet; tells what is not.
    async fn rest(&self, evidence: &Evidence) -> Vec<String> {
        let rest = Instant::now() + QUIET_WITHIN;
        let mut looks = 0;
        loop {
            let most = if Instant::now() > rest { 20 } else { 1 };
            let open = oracle::unsettled(evidence, most).await.expect("the plain store answers");
            // Twice: what was asked for before the end of the trouble may be committed after the first look.
            looks = if open.is_empty() { looks + 1 } else { 0 };
            if looks > 1 || most > 1 {
                return open;
            }
            self.faults.sleep(Duration::from_millis(500)).await;
        }
    }
}

/// Plays all of them side by side.
async fn join_all(players: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut players: Vec<_> = players.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        players.retain_mut(|player| player.as_mut().poll(context).is_pending());
        if players.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
