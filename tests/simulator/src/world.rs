//! One run: processes on one store and one broker, actors, the fault phase, the recovery, and the final checks.

mod checks;
mod processes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handover_memory::{MemoryArchive, MemoryBroker, VirtualClock};
use handover_outbox::ports::Clock;
use handover_outbox::{ConsumerQueue, WakeupNotifier};
use marketplace::use_cases::ListProduct;
use marketplace::{App, service};
use marketplace_domain::{Money, Title};
use marketplace_memory::MemoryStore;
use tokio::time::Instant;

use super::actors::journal::{Journal, ListedProduct};
use super::actors::webhooks::WebhookOperators;
use super::actors::{
    self, ActorState, archive, asset_grants, clients, environment, invoices, operators, refund_reports,
};
use super::faults::Faults;
use super::gateway_model::GatewayModel;
use super::oracle;
use super::ports::clock::FaultyClock;
use super::ports::defects::Defect;
use super::random_numbers::RandomNumbers;
use super::run::{Outcome, Run};
use super::run_settings::{MAX_DOWNTIME, RunSettings};

use processes::{CreatedProcess, Slot};

/// Longer than the clocks of processes and database differ.
const SKEW: Duration = Duration::from_secs(10);

/// Time before the end of the invoiced month at which a run begins.
const SET_UP: Duration = Duration::from_secs(60);

/// Share of the runs that are compared with a run without faults, in thousandths.
const COMPARED_PERMILLE: u64 = 100;

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
    /// The storage of the archive; it is empty in a run without one.
    archive: MemoryArchive,
    slots: Vec<Slot>,
    clock: VirtualClock,
    clocks: Vec<FaultyClock>,
    journal: Journal,
    gateway_model: GatewayModel,
    consumers: Arc<BTreeMap<String, ConsumerQueue>>,
    run_settings: RunSettings,
    defect: Option<Defect>,
}

impl World {
    fn new(run: Run) -> World {
        let random = RandomNumbers::new(run.seed);
        let of_archive = RandomNumbers::of_archive(run.seed);
        let run_settings = RunSettings::of(&random, &of_archive);
        let faults = Faults::new(random.fork(), &of_archive, run.profile, run.story);
        let start = invoices::closed_month().end() - SET_UP;
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
            archive: MemoryArchive::new(),
            slots: Vec::new(),
            clock,
            clocks,
            journal,
            gateway_model,
            consumers: Arc::default(),
            run_settings,
            defect: run.defect,
        };
        let app = world.process(0, &Arc::default()).app;
        world.consumers =
            Arc::new(app.outbox.consumers().iter().map(|it| (it.queue.clone(), it.clone())).collect());
        for slot in 0..processes {
            let killed = Arc::default();
            let CreatedProcess { app, transport, .. } = world.process(slot, &killed);
            world.slots.push(Slot { app: Mutex::new(app), killed, transport });
        }
        world
    }

    async fn play(self, until: Option<Duration>) -> Outcome {
        self.set_up().await;
        // The gateway's reports and the ledger checks also run during the final checks.
        tokio::select! {
            biased;
            outcome = self.execute(until) => outcome,
            () = self.reports() => unreachable!("the reports of the gateway never end"),
            () = self.audits() => unreachable!("the ledger checks never end"),
        }
    }

    async fn execute(&self, until: Option<Duration>) -> Outcome {
        let length = Duration::from_secs(4 + self.faults.random.below(5));
        let max_length = until.map_or(length, |until| until.min(length));
        let fault_duration = if self.run_settings.has_archive {
            let until_downtime = max_length.min(length / 2);
            let before = self.disturb(until_downtime).await;
            if until_downtime < max_length {
                self.interrupt().await;
                before + self.disturb(max_length - until_downtime).await
            } else {
                before
            }
        } else {
            self.disturb(max_length).await
        };
        self.heal().await;
        let mut violations = self.check_when_idle(false).await;
        if violations.is_empty() {
            violations.extend(self.recover().await);
            if violations.is_empty() && self.faults.random.permille(COMPARED_PERMILLE) {
                // Wait for stalled calls: a change that they commit later would be missing in the reference run.
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
            oracle::sizes(&self.evidence(true)).await.expect("reads without faults succeed");
        for slot in 0..self.slots.len() {
            self.app(slot).tx.tasks().kill();
            self.app(slot).tx.tasks().ended().await;
        }
        self.faults
            .note("world", || format!("ends with {orders} orders, {events} events and {violations:?}"));
        Outcome { violations, orders, events, fault_duration, coverage, story: self.faults.story() }
    }

    /// Injects faults for this time. Returns the time that it took.
    async fn disturb(&self, length: Duration) -> Duration {
        let begun = Instant::now();
        let plain_app = self.plain_app();
        let slots = (0..self.slots.len()).map(|slot| self.supervise(slot));
        let fault_phase = async {
            tokio::join!(
                join_all(slots),
                environment::disturb_broker(&self.faults, &self.broker),
                environment::disturb_clocks(&self.faults, &self.clocks, &self.store),
                environment::delete_rows(&plain_app, &self.faults, &self.store),
                self.clients(),
                self.operators(),
                self.webhook_operators(),
                self.invoice_operators(),
            );
        };
        if self.run_settings.has_archive {
            let fault_phase = async { tokio::join!(fault_phase, self.archive_operators()) };
            let _ = tokio::time::timeout(length, fault_phase).await;
        } else {
            let _ = tokio::time::timeout(length, fault_phase).await;
        }
        begun.elapsed()
    }

    /// Lists products, grants assets and starts the processes, without faults.
    async fn set_up(&self) {
        let seller_app = self.plain_app();
        service::prepare(&seller_app).await.expect("preparing without faults succeeds");
        // A consumer ignores events created before its first subscription: no event may seem to be older than the
        // subscriptions.
        self.faults.sleep(SKEW).await;
        let random = &self.faults.random;
        for number in 0..6 + random.below(8) {
            let [first, second] = actors::tenants();
            let tenant = if number % 3 == 2 { second } else { first };
            let seller = actors::user(200 + number % 4);
            let title = Title::try_from(format!("thing {number}")).expect("a valid title");
            let price = Money::from_minor(8_850).expect("a valid price");
            let command = ListProduct { title, price };
            let listed = seller_app
                .ordering
                .list_product(&actors::by_user(&self.faults, tenant, seller), command)
                .await;
            self.journal.add_product(ListedProduct {
                tenant,
                id: listed.expect("listing without faults succeeds").id,
                seller,
                price,
            });
        }
        if self.run_settings.has_invoices {
            invoices::complete_orders(&seller_app, &self.actor_state()).await;
        }
        let left = invoices::closed_month().closed_at() - seller_app.tx.now();
        self.faults.sleep(left.to_std().unwrap_or_default() + SKEW).await;
        asset_grants::grant_at_begin(&seller_app, &self.faults, &self.journal).await;
        self.operators_of_webhooks(&seller_app).create_at_begin().await;
        for slot in 0..self.slots.len() {
            self.start(slot);
        }
    }

    fn actor_state(&self) -> ActorState {
        ActorState {
            faults: self.faults.clone(),
            journal: self.journal.clone(),
            gateway_model: self.gateway_model.clone(),
        }
    }

    /// The gateway reports refund results to a random process.
    async fn reports(&self) {
        loop {
            let refund = self.gateway_model.next_report().await;
            let app = self.app(self.faults.random.index(self.slots.len()));
            #[allow(clippy::disallowed_methods, reason = "not a task of a simulated process")]
            drop(tokio::spawn(refund_reports::report(app, self.actor_state(), refund)));
        }
    }

    async fn clients(&self) {
        let actor_state = self.actor_state();
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

    async fn webhook_operators(&self) {
        loop {
            self.faults.sleep(self.faults.random.millis(500..2_500)).await;
            let app = self.app(self.faults.random.index(self.slots.len()));
            let patience = Duration::from_secs(10);
            let _ = tokio::time::timeout(patience, self.operators_of_webhooks(&app).act()).await;
        }
    }

    async fn invoice_operators(&self) {
        if !self.run_settings.has_invoices {
            return;
        }
        let actor_state = self.actor_state();
        loop {
            self.faults.sleep(self.faults.random.millis(300..2_000)).await;
            let app = self.app(self.faults.random.index(self.slots.len()));
            let patience = Duration::from_secs(10);
            let _ = tokio::time::timeout(patience, invoices::act(&app, &actor_state)).await;
        }
    }

    async fn archive_operators(&self) {
        loop {
            self.faults.sleep(self.faults.random.millis(200..1_200)).await;
            let app = self.app(self.faults.random.index(self.slots.len()));
            let patience = Duration::from_secs(10);
            let _ = tokio::time::timeout(patience, archive::act(&app, &self.faults)).await;
        }
    }

    pub(super) fn operators_of_webhooks<'a>(&'a self, app: &'a App) -> WebhookOperators<'a> {
        let transport = &self.slots.first().expect("the slot exists").transport;
        WebhookOperators { app, faults: &self.faults, transport }
    }

    fn heal_environment(&self) {
        self.faults.set_unroutable(false);
        self.broker.set_reachable(true);
        self.broker.set_blocked(None);
        self.clocks.iter().for_each(FaultyClock::heal);
    }

    /// All processes stop or are killed, and start again when the retention time of the events has ended. Clients and
    /// operators do nothing meanwhile.
    pub(super) async fn interrupt(&self) {
        self.heal_environment();
        for slot in 0..self.slots.len() {
            let tasks = self.app(slot).tx.tasks().clone();
            if !tasks.is_killed() && self.faults.random.permille(500) {
                self.stop(slot, &tasks).await;
            }
            tasks.kill();
            tasks.ended().await;
        }
        self.faults.note("world", || "all processes are down".to_owned());
        let downtime = self.faults.random.millis(35_000..50_000).min(MAX_DOWNTIME);
        self.faults.sleep(downtime).await;
        for slot in 0..self.slots.len() {
            self.start(slot);
        }
    }

    async fn heal(&self) {
        self.faults.heal();
        self.heal_environment();
        for slot in 0..self.slots.len() {
            // Restart a process that has crashed or is being stopped: the fault phase ended before its restart.
            let tasks = self.app(slot).tx.tasks().clone();
            if tasks.is_killed() || tasks.stopping().is_cancelled() {
                if !tasks.is_killed() {
                    self.stop(slot, &tasks).await;
                }
                tasks.ended().await;
                self.start(slot);
            }
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
