//! One run: two processes on one store and one broker, clients, chaos, healing, quiet, and the oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_application::consumers::standard;
use handover_application::ports::{Broker, Clock, Message, OnFailed, Store};
use handover_application::topology::INVENTORY_QUEUE;
use handover_application::use_cases::{ListProduct, list_product};
use handover_application::*;
use handover_domain::{Jitter, Money, RetryPolicy, Title};
use handover_memory::{MemoryBroker, MemoryStore, VirtualClock};

use super::broker::FaultyBroker;
use super::chance::Dice;
use super::clients::{self, Journal};
use super::faults::Faults;
use super::mutants::Mutant;
use super::oracle;
use super::store::FaultyStore;

/// How long everything may take to come to rest once nothing goes wrong any more, in virtual time.
const QUIET_WITHIN: Duration = Duration::from_secs(180);

/// What a run ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub violations: Vec<String>,
    pub events: usize,
    pub reached: BTreeSet<&'static str>,
    pub story: Vec<String>,
}

/// Runs one seed in a runtime of its own: one thread, virtual time.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime on this thread");
    runtime.block_on(async move { World::new(seed, mutant).play().await })
}

struct World {
    faults: Faults,
    clock: VirtualClock,
    store: MemoryStore,
    broker: MemoryBroker,
    processes: Vec<Arc<Mutex<App>>>,
    journal: Journal,
    consumers: Arc<BTreeMap<&'static str, &'static str>>,
}

impl World {
    fn new(seed: u64, mutant: Option<Mutant>) -> World {
        let faults = Faults::new(Dice::new(seed), mutant);
        let start = chrono::DateTime::from_timestamp(1_770_000_000, 0).expect("a moment in 2026");
        let clock = VirtualClock::new(start);
        let port: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = MemoryStore::new(Arc::clone(&port), Wake::default());
        let broker = MemoryBroker::new(port);
        let mut world = World {
            faults,
            clock,
            store,
            broker,
            processes: Vec::new(),
            journal: Journal::default(),
            consumers: Arc::default(),
        };
        let (app, _) = world.process();
        world.consumers = Arc::new(standard(&app).iter().map(|s| (s.queue, s.handler.name())).collect());
        for _ in 0..2 {
            let (app, _) = world.process();
            world.processes.push(Arc::new(Mutex::new(app)));
        }
        world
    }

    /// A new process: its own tasks, bell and ids on the shared store and broker.
    fn process(&self) -> (App, Wake) {
        let wake = Wake::default();
        let store: Arc<dyn Store> = Arc::new(self.store.for_process(wake.clone()));
        let broker: Arc<dyn Broker> = Arc::new(self.broker.clone());
        let tx = Transactor {
            store: Arc::new(FaultyStore { inner: store, faults: self.faults.clone() }),
            tasks: Tasks::default(),
            clock: Arc::new(self.clock.clone()),
            chance: Arc::new(self.faults.dice.clone()),
            policy: TxPolicy::default(),
        };
        let (pending_timeout, on_failed) = (Duration::from_secs(15), OnFailed::Continue);
        let rules = Rules { pending_timeout, max_retry_count: 3, on_failed };
        let broker = Arc::new(FaultyBroker {
            inner: broker,
            faults: self.faults.clone(),
            plain: Arc::new(self.store.clone()),
            consumers: Arc::clone(&self.consumers),
        });
        (App::new(tx, broker, rules), wake)
    }

    async fn play(self) -> Report {
        let plain: Arc<dyn Store> = Arc::new(self.store.clone());
        let broker: Arc<dyn Broker> = Arc::new(self.broker.clone());
        self.open().await;
        let horizon = Duration::from_secs(8 + self.faults.dice.below(22));
        let chaos = tokio::time::timeout(horizon, async {
            tokio::join!(self.crashes(0), self.crashes(1), self.weather(), self.clients());
        });
        let _ = chaos.await;
        self.faults.heal();
        self.broker.set_reachable(true);
        for slot in 0..self.processes.len() {
            // The chaos may have ended between a crash and the start after it.
            if self.app(slot).tx.tasks.is_killed() {
                self.restart(slot);
            }
        }
        let app = self.app(0);
        let rest = tokio::time::Instant::now() + QUIET_WITHIN;
        let open = loop {
            let open = oracle::unsettled(&plain, &broker, &app).await.expect("the plain store answers");
            if open.is_empty() || tokio::time::Instant::now() > rest {
                break open;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        };
        let mut violations: Vec<String> = open.into_iter().map(|what| format!("stuck: {what}")).collect();
        violations.extend(self.faults.violations());
        let seen = oracle::violations(&plain, &app, &self.journal, &self.faults).await;
        violations.extend(seen.expect("the plain store answers"));
        let rows = plain.view().await.expect("the plain store answers");
        let events = count(rows).await;
        let mut reached = oracle::reached(&plain, &app).await.expect("the plain store answers");
        reached.extend(self.faults.reached());
        for process in 0..self.processes.len() {
            self.app(process).tx.tasks.kill();
            self.app(process).tx.tasks.ended().await;
        }
        self.faults.note(|| format!("ended with {events} events and {violations:?}"));
        Report { violations, events, reached, story: self.faults.story() }
    }

    /// Products and the first start, before anything goes wrong.
    async fn open(&self) {
        let healed = Faults::new(self.faults.dice.clone(), None);
        healed.heal();
        let (seller_app, _) = self.process_with(&healed);
        runtime::prepare(&seller_app).await.expect("a healthy start");
        for number in 0..4 + self.faults.dice.below(4) {
            let seller = clients::user(200 + i64::try_from(number % 3).unwrap_or(0));
            let title = Title::try_from(format!("thing {number}")).expect("a legal title");
            let command = ListProduct { title, price: Money::from_minor(8_850).expect("a legal price") };
            let product = list_product(&seller_app, &clients::context(&healed, seller), command).await;
            self.journal.add_product(product.expect("a healthy store lists").id);
        }
        for slot in 0..self.processes.len() {
            self.restart(slot);
        }
    }

    fn process_with(&self, faults: &Faults) -> (App, Wake) {
        World {
            faults: faults.clone(),
            clock: self.clock.clone(),
            store: self.store.clone(),
            broker: self.broker.clone(),
            processes: Vec::new(),
            journal: self.journal.clone(),
            consumers: Arc::clone(&self.consumers),
        }
        .process()
    }

    fn app(&self, slot: usize) -> App {
        self.processes[slot].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn restart(&self, slot: usize) {
        let (app, wake) = self.process();
        runtime::start(&app, &wake, runtime::Roles::ALL, &settings());
        *self.processes[slot].lock().unwrap_or_else(PoisonError::into_inner) = app;
    }

    /// Kills a process at whatever await its tasks have reached, and starts another in its place.
    async fn crashes(&self, slot: usize) {
        loop {
            tokio::time::sleep(self.faults.dice.millis(500..4_000)).await;
            if self.faults.strikes(self.faults.rates.crash) {
                self.faults.note(|| format!("process {slot} crashes"));
                self.faults.reach("a crash");
                let app = self.app(slot);
                app.tx.tasks.kill();
                app.tx.tasks.ended().await;
                tokio::time::sleep(self.faults.dice.millis(0..300)).await;
                self.restart(slot);
            }
        }
    }

    /// Outages of the broker and bindings that are gone for a while.
    async fn weather(&self) {
        let (dice, rates) = (&self.faults.dice, &self.faults.rates);
        loop {
            tokio::time::sleep(dice.millis(1_000..6_000)).await;
            if rates.broker_outage {
                self.faults.note(|| "the broker goes away".into());
                self.faults.reach("an outage of the broker");
                self.broker.set_reachable(false);
                tokio::time::sleep(dice.millis(200..5_000)).await;
                self.broker.set_reachable(true);
            }
            if rates.garbage {
                self.litter();
            }
            if rates.unroutable_burst {
                self.faults.set_unroutable(true);
                tokio::time::sleep(dice.millis(50..3_000)).await;
                self.faults.set_unroutable(false);
            }
        }
    }

    /// Puts something into a queue that is no event of ours.
    fn litter(&self) {
        let number = self.faults.dice.below(1_000_000);
        let bodies = [
            format!("no JSON at all {number}"),
            format!("{{\"eventId\":\"stray-{number}\"}}"),
            format!(
                "{{\"eventId\":\"stray-{number}\",\"eventType\":\"ORDER_LOST\",\"aggregateType\":\"Order\",\
                 \"aggregateId\":1,\"occurredAt\":\"2026-02-04T10:30:00Z\",\"traceId\":\"t\",\"payload\":{{}}}}"
            ),
        ];
        if let Some(body) = self.faults.dice.pick(&bodies) {
            self.faults.add_garbage(body);
            self.broker.inject(INVENTORY_QUEUE, Message { body: body.clone(), ..Message::default() });
        }
    }

    async fn clients(&self) {
        let client = || async {
            for _ in 0..5 + self.faults.dice.below(10) {
                let slot = usize::try_from(self.faults.dice.below(self.processes.len() as u64)).unwrap_or(0);
                clients::act(&self.app(slot), &self.faults, &self.journal).await;
                tokio::time::sleep(self.faults.dice.millis(0..900)).await;
            }
        };
        tokio::join!(client(), client(), client());
    }
}

async fn count(mut view: Box<dyn ports::View>) -> usize {
    view.outbox_page(&ports::OutboxFilter::default(), None, u32::MAX).await.map_or(0, |rows| rows.len())
}

/// The defaults, shortened, so that a run fits into a minute of virtual time.
fn settings() -> Settings {
    let second = Duration::from_secs(1);
    Settings {
        relay: RelaySettings {
            retry: RetryPolicy::Schedule { delays: vec![second, second * 3, second * 8] },
            lease_ms: 2_000,
            confirm_timeout: second * 4,
            scan_interval: second * 2,
            batch: NonZeroU32::MIN.saturating_add(19),
            ..RelaySettings::default()
        },
        consumer: ConsumerSettings {
            retry: RetryPolicy::Exponential {
                base: Duration::from_millis(200),
                cap: second * 3,
                max_attempts: NonZeroU32::MIN.saturating_add(3),
                jitter: Jitter::NONE,
            },
            attempt_timeout: second * 4,
            lease: second * 6,
            sweep_interval: second * 3,
            lost_after: second * 8,
            ..ConsumerSettings::default()
        },
        timeout: TimeoutSettings { sweep_interval: second * 5, ..TimeoutSettings::default() },
    }
}
