//! Starts what runs by itself, by role.

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, warn};

use crate::consumers::{Consumer, DeadLetterDrainer, answered, subscribe};
use crate::jobs::{ConsistencyRepair, LockTimeoutReaper, RefundDispatcher, RequestSweep, TimeoutSweep};
use crate::ports::{BrokerError, RelayId};
use crate::relay::Relay;
use crate::settings::Settings;
use crate::use_cases::UseCaseError;
use crate::{App, Marketplace, Wake};

/// The pause before a loop that panicked begins anew.
const AFTER_PANIC: Duration = Duration::from_secs(1);

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

/// Declares the topology and subscribes every consumer, so that no event finds its queue or its consumer missing.
/// Every process does this before it takes its first order, whatever its roles. A broker that is away keeps nobody from
/// starting: events wait for it in the outbox, and it is told when it comes. Blocks of ids that were set back are raised.
pub async fn prepare(app: &App) -> Result<(), UseCaseError> {
    match answered(app.outbox.broker.declare(&app.outbox.topology)).await {
        Ok(()) => {}
        Err(error @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
            warn!(%error, "[ALERT] the broker is away; events wait until it comes");
        }
        Err(refused @ BrokerError::Refused { .. }) => return Err(refused.into()),
    }
    for subscriber in app.subscribers() {
        subscribe(&app.outbox, subscriber.handler.name()).await?;
    }
    app.ids.raise().await?;
    Ok(())
}

/// Starts the loops of these roles as tasks of the application's process and returns at once. They survive outages of
/// database and broker by themselves, are started again after a panic, and end when `Tasks::stop` asks them to.
pub fn start(app: &App, wake: &Wake, roles: Roles, settings: &Settings) {
    let app = app.of_its_own();
    if roles.relay {
        let (relay, wake, settings) = (app.outbox.clone(), wake.clone(), settings.relay.clone());
        keep_running(&app, "relay", move || {
            let id = RelayId(format!("relay-{:016x}", relay.tx.chance.next()));
            Relay::new(relay.clone(), wake.clone(), id, settings.clone()).run()
        });
    }
    if roles.consumers {
        let settings = Arc::new(settings.consumer.clone());
        for subscriber in app.subscribers() {
            let (consumer, settings) = (app.outbox.clone(), Arc::clone(&settings));
            keep_running(&app, subscriber.handler.name(), move || {
                Consumer::new(consumer.clone(), subscriber.clone(), Arc::clone(&settings)).run()
            });
        }
        let drainer = app.clone();
        keep_running(&app, "dead-letters", move || {
            DeadLetterDrainer::new(drainer.outbox.clone(), &drainer.subscribers(), &settings).run()
        });
    }
    if roles.jobs {
        let sweep = app.clone();
        keep_running(&app, "request-sweep", move || RequestSweep::new(sweep.clone()).run());
    }
    if roles.jobs && app.extensions.marketplace() == Marketplace::Runs {
        let (sweep, timeout) = (app.clone(), settings.timeout.clone());
        keep_running(&app, "order-timeout-sweep", move || {
            TimeoutSweep::new(sweep.clone(), timeout.clone()).run()
        });
        let (dispatcher, refund) = (app.clone(), settings.refund.clone());
        keep_running(&app, "refund-dispatcher", move || {
            RefundDispatcher::new(dispatcher.clone(), refund.clone()).run()
        });
        let (reaper, consistency) = (app.clone(), settings.consistency.clone());
        keep_running(&app, "lock-timeout-reaper", move || {
            LockTimeoutReaper::new(reaper.clone(), consistency.clone()).run()
        });
        let (repair, consistency) = (app.clone(), settings.consistency.clone());
        keep_running(&app, "consistency-repair", move || {
            ConsistencyRepair::new(repair.clone(), consistency.clone()).run()
        });
    }
}

/// Runs a loop as a task until the process stops; one that panics is logged and begun anew.
fn keep_running<F>(app: &App, what: &'static str, begin: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tasks, clock) = (app.tx.tasks.clone(), Arc::clone(&app.tx.clock));
    let supervisor = async move {
        while let Err(panic) = tasks.spawn(begin()).await {
            error!(%panic, "[{what}] [ALERT] a loop has panicked; it begins anew");
            clock.sleep(AFTER_PANIC).await;
        }
    };
    drop(app.tx.tasks.spawn(supervisor));
}
