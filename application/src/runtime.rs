//! Starts what runs by itself, by role.

use std::sync::Arc;

use crate::consumers::{Consumer, DeadLetterDrainer, standard, subscribe};
use crate::jobs::TimeoutSweep;
use crate::ports::RelayId;
use crate::relay::Relay;
use crate::settings::Settings;
use crate::topology::Topology;
use crate::use_cases::UseCaseError;
use crate::{App, Wake};

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
/// Every process does this before it takes its first order, whatever its roles.
pub async fn prepare(app: &App) -> Result<(), UseCaseError> {
    app.broker.declare(&Topology::standard(app.rules.pending_timeout)).await?;
    for subscriber in standard(app) {
        subscribe(app, subscriber.handler.name()).await?;
    }
    Ok(())
}

/// Starts the loops of these roles as tasks of the application's process and returns at once. They survive outages of
/// database and broker by themselves, and end when `Tasks::stop` asks them to.
pub fn start(app: &App, wake: &Wake, roles: Roles, settings: &Settings) {
    let tasks = &app.tx.tasks;
    if roles.relay {
        let id = RelayId(format!("relay-{:016x}", app.tx.chance.next()));
        drop(tasks.spawn(Relay::new(app.clone(), wake.clone(), id, settings.relay.clone()).run()));
    }
    if roles.consumers {
        let consumer_settings = Arc::new(settings.consumer.clone());
        let subscribers = standard(app);
        let drainer = DeadLetterDrainer::new(app.clone(), &subscribers, &consumer_settings);
        for subscriber in subscribers {
            drop(tasks.spawn(Consumer::new(app.clone(), subscriber, Arc::clone(&consumer_settings)).run()));
        }
        drop(tasks.spawn(drainer.run()));
    }
    if roles.jobs {
        drop(tasks.spawn(TimeoutSweep::new(app.clone(), settings.timeout.clone()).run()));
    }
}
