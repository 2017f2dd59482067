//! What a process of the marketplace runs, by role.

use crate::App;
use crate::jobs::{
    ConsistencyRepair, ConsistencySettings, LockTimeoutReaper, RefundDispatcher, RefundSettings,
    RequestSweep, TimeoutSettings, TimeoutSweep,
};
use crate::use_cases::UseCaseError;
use handover_outbox::Wake;
use handover_outbox::runtime::{self, keep_running};
use handover_outbox::{ConsumerSettings, RelaySettings};

/// The settings of everything that runs by itself.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The relay's.
    pub relay: RelaySettings,
    /// The consumers'.
    pub consumer: ConsumerSettings,
    /// The timeout sweep's.
    pub timeout: TimeoutSettings,
    /// The refunds'.
    pub refund: RefundSettings,
    /// The reaper's and the repair's.
    pub consistency: ConsistencySettings,
}

/// Which parts of the service a process runs (`serve --roles`). The HTTP edge is the composition root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Publishes the outbox.
    pub relay: bool,
    /// Applies events.
    pub consumers: bool,
    /// Sweeps.
    pub jobs: bool,
}

impl Roles {
    /// All of them.
    pub const ALL: Roles = Roles { relay: true, consumers: true, jobs: true };
}

/// Makes a process ready for its first order: every queue is declared, every consumer subscribed, and blocks of ids that
/// were set back are raised. Every process does this before it takes an order, whatever its roles.
pub async fn prepare(app: &App) -> Result<(), UseCaseError> {
    runtime::prepare(&app.outbox).await?;
    app.ids.raise().await?;
    Ok(())
}

/// Starts the loops of these roles as tasks of the application's process and returns at once. They survive outages of
/// database and broker by themselves, are started again after a panic, and end when `Tasks::stop` asks them to.
pub fn start(app: &App, wake: &Wake, roles: Roles, settings: &Settings) {
    let app = app.of_its_own();
    if roles.relay {
        runtime::start_relay(&app.outbox, wake, &settings.relay);
    }
    if roles.consumers {
        runtime::start_consumers(&app.outbox, app.bound(), &settings.consumer);
    }
    if roles.jobs {
        let sweep = app.clone();
        keep_running(&app.outbox.tx, "request-sweep", move || RequestSweep::new(sweep.clone()).run());
        let (sweep, timeout) = (app.clone(), settings.timeout.clone());
        keep_running(&app.outbox.tx, "order-timeout-sweep", move || {
            TimeoutSweep::new(sweep.clone(), timeout.clone()).run()
        });
        let (dispatcher, refund) = (app.clone(), settings.refund.clone());
        keep_running(&app.outbox.tx, "refund-dispatcher", move || {
            RefundDispatcher::new(dispatcher.clone(), refund.clone()).run()
        });
        let (reaper, consistency) = (app.clone(), settings.consistency.clone());
        keep_running(&app.outbox.tx, "lock-timeout-reaper", move || {
            LockTimeoutReaper::new(reaper.clone(), consistency.clone()).run()
        });
        let (repair, consistency) = (app.clone(), settings.consistency.clone());
        keep_running(&app.outbox.tx, "consistency-repair", move || {
            ConsistencyRepair::new(repair.clone(), consistency.clone()).run()
        });
    }
}
