//! Preparation of a process, and its background tasks: relay, consumers, jobs.

use std::sync::Arc;

use crate::app::App;
use crate::jobs::{
    AutoCompletion, AutoCompletionSettings, ConsistencySettings, ContinuousReconciliation, InvoiceSettings,
    Invoices, LockTimeoutReaper, RefundDispatcher, RefundSettings, RequestSweep, TimeoutSettings,
    TimeoutSweep,
};
use handover_outbox::WakeupNotifier;
use handover_outbox::jobs::{LEADER_LEASE_MS, Leader};
use handover_outbox::runtime::{self, PrepareError};
use handover_outbox::{ConsumerSettings, RelaySettings};

/// Name of the lease of the process that runs the jobs of the leader.
const LEADER_LEASE: &str = "marketplace-jobs";

/// Settings of the background tasks.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub relay: RelaySettings,
    pub consumer: ConsumerSettings,
    /// Order timeout sweep.
    pub timeout: TimeoutSettings,
    /// Automatic completion of shipped orders.
    pub auto_completion: AutoCompletionSettings,
    /// Generation of invoices.
    pub invoices: InvoiceSettings,
    /// Refund dispatcher.
    pub refund: RefundSettings,
    /// Lock reaper and reconciliation.
    pub consistency: ConsistencySettings,
}

/// Prepares a process: declares every queue, subscribes every consumer, and raises id sequences that a restored
/// backup has reset. Every process MUST run this before it accepts an order, regardless of its roles.
pub async fn prepare(app: &App) -> Result<(), PrepareError> {
    runtime::prepare(&app.outbox).await?;
    app.ids.raise().await?;
    Ok(())
}

/// Starts all background tasks and returns immediately. The tasks retry after outages of database and broker, are
/// restarted after a panic, and end on `Tasks::stop`. Returns the leader of the jobs, for further jobs.
pub fn start(app: &App, wake: &WakeupNotifier, settings: &Settings) -> Leader {
    let app = app.for_background_tasks();
    runtime::start_relay(&app.outbox, wake, &settings.relay);
    runtime::start_consumers(&app.outbox, app.bound(), &settings.consumer);
    start_jobs(&app, settings)
}

/// Starts the periodic jobs of this application for background tasks. Returns their leader, for further jobs.
pub fn start_jobs(app: &App, settings: &Settings) -> Leader {
    let leader = Leader::start(&app.outbox.tx, LEADER_LEASE, LEADER_LEASE_MS);
    let tx = &app.tx;
    RequestSweep { tx: tx.clone(), interval: app.idempotency.settings.sweep_interval }.start(&leader);
    TimeoutSweep::new(tx.clone(), app.handlers.clone(), settings.timeout.clone()).start(&leader);
    let events = app.handlers.events.clone();
    AutoCompletion::new(tx.clone(), events.clone(), settings.auto_completion.clone()).start(&leader);
    Invoices { invoicing: app.invoicing.clone(), settings: settings.invoices.clone() }.start(&leader);
    RefundDispatcher { tx: tx.clone(), gateway: Arc::clone(&app.gateway), settings: settings.refund.clone() }
        .start();
    let consistency = &settings.consistency;
    LockTimeoutReaper { tx: tx.clone(), events, settings: consistency.clone() }.start(&leader);
    ContinuousReconciliation::new(app.operations.clone(), consistency.clone()).start(&leader);
    leader
}
