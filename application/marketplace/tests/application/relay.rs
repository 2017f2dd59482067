//! The relay: publish outcomes, order of rows, and ownership of partitions.

mod clock_steps;
mod messages;
mod order;
mod outages;
mod outcomes;
mod ownership;
mod test_brokers;
mod windows;

use handover_outbox::RelaySettings;
use handover_outbox::ports::{Broker, OnFailed};

use crate::support::{Process, World, millis, pass};

/// A deployment with one process whose relay uses this broker.
async fn relay_on(broker: std::sync::Arc<dyn Broker>, settings: RelaySettings) -> (World, Process) {
    relay_with(OnFailed::Continue, broker, settings).await
}

async fn relay_with(
    on_failed: OnFailed,
    broker: std::sync::Arc<dyn Broker>,
    settings: RelaySettings,
) -> (World, Process) {
    let mut world = World::new().await;
    world.on_failed = on_failed;
    let process = world.process_on(broker);
    process.start_relay("relay-1", settings);
    pass(millis(1)).await;
    (world, process)
}
