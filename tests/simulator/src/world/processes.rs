//! The processes of a run: created, started, killed, stopped and restarted, on one store and one broker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_outbox::archive::{Archive, ArchiveJob, ArchiveStorage, RetentionPolicy};
use handover_outbox::ports::{Broker, DatabaseMonitor, WebhookTransport};
use handover_outbox::webhooks::WebhookDispatcher;
use handover_outbox::{Tasks, Transactor, WakeupNotifier};
use marketplace::idempotency::RequestSettings;
use marketplace::ports::MarketStore;
use marketplace::{App, service};
use tokio::sync::Notify;

use super::World;
use crate::fault_kinds::Fault;
use crate::ports::Process;
use crate::ports::archive::{FaultyArchive, FaultyMonitor};
use crate::ports::broker::{FaultyBroker, WindowsInProgress};
use crate::ports::defects::{DefectiveBroker, DefectiveStore};
use crate::ports::gateway::FaultyGateway;
use crate::ports::store::FaultyStore;
use crate::ports::webhook_transport::FaultyReceivers;
use crate::run_settings::{ARCHIVE_INTERVAL, RETENTION};

/// Maximum time of a clean stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Lease of an idempotency key: shorter than some requests take, so that leases expire.
const KEY_LEASE: Duration = Duration::from_secs(1);

/// A slot runs one process at a time.
pub(super) struct Slot {
    pub(super) app: Mutex<App>,
    pub(super) killed: Arc<Notify>,
    /// Operators check URLs with it.
    pub(super) transport: Arc<dyn WebhookTransport>,
}

/// A process that is not started yet.
pub(super) struct CreatedProcess {
    pub(super) app: App,
    wake: WakeupNotifier,
    pub(super) transport: Arc<dyn WebhookTransport>,
    monitor: Arc<dyn DatabaseMonitor>,
}

impl World {
    /// Creates a process for this slot, with its own tasks, wake-ups and ids on the shared store and broker.
    pub(super) fn process(&self, slot: usize, killed: &Arc<Notify>) -> CreatedProcess {
        let (wake, tasks) = (WakeupNotifier::default(), Tasks::default());
        let process = Process {
            name: format!("process {slot}").into(),
            faults: self.faults.clone(),
            tasks: tasks.clone(),
            clock: self.clock.clone(),
            on_failed: self.run_settings.on_failed,
            on_outage: self.run_settings.settings.relay.on_outage,
            consumers: Arc::clone(&self.consumers),
            webhook_delays: self.run_settings.webhook.delays.as_slice().into(),
            killed: Arc::clone(killed),
        };
        let inner: Arc<MarketStore> = Arc::new(self.store.for_process(wake.clone()));
        let clock = self.clocks.get(slot).expect("a clock for each slot");
        let store = FaultyStore { inner, process: process.clone(), flavour: self.run_settings.flavour };
        let store: Arc<MarketStore> = match self.defect {
            Some(defect) => Arc::new(DefectiveStore { inner: store, defect }),
            None => Arc::new(store),
        };
        let tx = Transactor::new(store, Arc::new(clock.clone()), Arc::new(self.faults.random.clone()), tasks);
        let broker = FaultyBroker {
            inner: Arc::new(self.broker.clone()),
            process: process.clone(),
            plain: Arc::new(self.store.clone()),
            windows: WindowsInProgress::default(),
        };
        let broker: Arc<dyn Broker> = match self.defect {
            Some(defect) => Arc::new(DefectiveBroker { inner: broker, defect }),
            None => Arc::new(broker),
        };
        let transport = Arc::new(FaultyReceivers { process: process.clone() });
        let monitor = Arc::new(FaultyMonitor { process: process.clone() });
        let archive = FaultyArchive { inner: self.archive.clone(), process: process.clone() };
        let gateway = FaultyGateway { gateway_model: self.gateway_model.clone(), process };
        let requests = RequestSettings { lease: KEY_LEASE, ..RequestSettings::default() };
        let app = App::new(tx, broker, self.run_settings.rules())
            .with_on_failed(self.run_settings.on_failed)
            .with_requests(requests);
        let app = self.with_archive(app.with_gateway(Arc::new(gateway)), Arc::new(archive));
        CreatedProcess { app, wake, transport, monitor }
    }

    /// The application with this storage, in a run with an archive.
    fn with_archive(&self, app: App, storage: Arc<dyn ArchiveStorage>) -> App {
        if self.run_settings.has_archive {
            app.with_archive(storage, RetentionPolicy::new(RETENTION))
        } else {
            app
        }
    }

    /// An application on the same store and broker, but without injected faults, for the setup and the checks.
    pub(super) fn plain_app(&self) -> App {
        let app = self.app(0);
        let store = Arc::new(self.store.clone());
        let clock = Arc::clone(app.tx.clock());
        let tx = Transactor::new(store, clock, Arc::clone(app.tx.random()), Tasks::default());
        let app = App::new(tx, Arc::new(self.broker.clone()), (*app.rules).clone())
            .with_on_failed(self.run_settings.on_failed);
        self.with_archive(app, Arc::new(self.archive.clone()))
    }

    pub(super) fn app(&self, slot: usize) -> App {
        let slot = self.slots.get(slot).expect("the slot exists");
        slot.app.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn start(&self, slot: usize) {
        let slot_state = self.slots.get(slot).expect("the slot exists");
        let CreatedProcess { app, wake, transport, monitor } = self.process(slot, &slot_state.killed);
        let leader = service::start(&app, &wake, &self.run_settings.settings);
        let outbox = app.for_background_tasks().outbox;
        if self.run_settings.has_archive {
            let job = ArchiveJob::new(Archive::of(&outbox), monitor);
            job.start(&outbox.tx, &leader, ARCHIVE_INTERVAL);
        }
        WebhookDispatcher::new(outbox.tx, transport, self.run_settings.webhook.clone()).start();
        self.faults.note("world", || format!("process {slot} starts"));
        *slot_state.app.lock().unwrap_or_else(PoisonError::into_inner) = app;
    }

    /// Waits until the process has stopped.
    pub(super) async fn stop(&self, slot: usize, tasks: &Tasks) {
        if tokio::time::timeout(STOP_TIMEOUT, tasks.stop()).await.is_err() {
            self.faults.violation(format!("process {slot} does not stop"));
        }
        tasks.kill();
    }

    /// Kills or stops the process of a slot at random times, and restarts it after that or after a crash.
    pub(super) async fn supervise(&self, slot: usize) {
        let (faults, killed) = (&self.faults, &self.slots.get(slot).expect("the slot exists").killed);
        loop {
            let wait = faults.random.millis(500..4_000);
            let crashed = tokio::time::timeout(wait, killed.notified()).await.is_ok();
            let app = self.app(slot);
            if crashed {
                faults.note("world", || format!("process {slot} has crashed"));
            } else if faults.occurs(Fault::Killed) {
                faults.note("world", || format!("process {slot} is killed"));
                app.tx.tasks().kill();
            } else if faults.occurs(Fault::Restarted) {
                faults.note("world", || format!("process {slot} is stopped"));
                self.stop(slot, app.tx.tasks()).await;
            } else {
                continue;
            }
            app.tx.tasks().ended().await;
            faults.sleep(faults.random.millis(0..300)).await;
            self.start(slot);
        }
    }
}
