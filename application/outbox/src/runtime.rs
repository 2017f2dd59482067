//! Starts the relay, the consumers and the dead-letter drainer, and restarts each of them after a panic.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::error;

use crate::consumers::{
    Bound, Consumer, DeadLetterDrainer, broker_timeout, keep_registered, register, subscribe,
};
use crate::gauges::keep_sampling;
use crate::outbox::{ConsumerQueue, Outbox};
use crate::ports::{BrokerError, RelayId, StoreError};
use crate::relay::Relay;
use crate::settings::{ConsumerSettings, RelaySettings};
use crate::summary::keep_logging;
use crate::supervision::keep_running;
use crate::topology::Topology;
use crate::wakeup::WakeupNotifier;

/// Pause between two declarations of the topology, after the first one failed.
const DECLARE_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Pause between two searches for relays that do not know the selective queues.
const OLDER_RELAYS_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Reason why a process could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker refused a declaration.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// Registers the event types of every consumer, subscribes every consumer and declares the topology, so that no event is
/// published before its queue exists and its consumer is subscribed. A task renews the registration until the process
/// stops, whatever its roles are.
///
/// Succeeds even if the broker is unreachable or responds late: events stay in the outbox, and a task declares the
/// topology as soon as the broker permits.
pub async fn prepare(outbox: &Outbox) -> Result<(), PrepareError> {
    register(outbox).await?;
    // Before its queue is bound: otherwise events that are published in between would be delivered, and the order gate would ignore
    // them as older than the subscription.
    for ConsumerQueue { consumer, .. } in outbox.consumers.iter() {
        subscribe(outbox, consumer).await?;
    }
    let topology = current_topology(outbox).await?;
    match broker_timeout(outbox.broker.declare(&topology)).await {
        Ok(()) if topology.has_selective_queues() => declare_later(outbox, Some(topology.has_older_relays)),
        Ok(()) => {}
        Err(error @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
            outbox.outage.stops_consumers(&error);
            declare_later(outbox, None);
        }
        Err(refused @ BrokerError::Refused { .. }) => return Err(refused.into()),
    }
    let registered = outbox.for_background_tasks();
    keep_running(&outbox.tx, "event-types", move || keep_registered(registered.clone()));
    Ok(())
}

fn declare_later(outbox: &Outbox, declared: Option<bool>) {
    let (waiting, declared) = (outbox.clone(), Mutex::new(declared));
    keep_running(&outbox.tx, "topology", move || {
        // After a panic it is not known what was declared last.
        let declared = declared.lock().unwrap_or_else(PoisonError::into_inner).take();
        keep_declared(waiting.clone(), declared)
    });
}

/// The topology, and whether relays are live that do not know its selective queues. While they are, messages also enter
/// selective queues by their bindings, so that none of those that these relays publish is lost.
async fn current_topology(outbox: &Outbox) -> Result<Topology, StoreError> {
    let mut topology = Topology::clone(&outbox.topology);
    if topology.has_selective_queues() {
        let mut view = outbox.view().await?;
        let now = view.outbox_view().database_now().await?;
        let relays = view.outbox_view().heartbeats().await?;
        topology.has_older_relays = relays
            .iter()
            .any(|relay| relay.alive_until > now && !relay.relay.knows_selective_queues(&outbox.topology));
    }
    Ok(topology)
}

/// Declares the topology until the broker has accepted it or the process stops. With selective queues, it is declared again
/// whenever the first relay that does not know them starts, and when the last one has ended: `declared` says whether there was
/// one at the last declaration. No time limit interrupts a declaration: a slow broker would never finish one.
async fn keep_declared(outbox: Outbox, mut declared: Option<bool>) {
    let stopping = outbox.stopping();
    let declaring = async {
        loop {
            match declare_unless(&outbox, declared).await {
                Ok(has_older_relays) => {
                    if !outbox.topology.has_selective_queues() {
                        return;
                    }
                    declared = Some(has_older_relays);
                    outbox.sleep(OLDER_RELAYS_AGAIN_AFTER).await;
                }
                Err(error) => {
                    if let PrepareError::Broker(BrokerError::Refused { .. }) = error {
                        error!(code = "topology.refused", %error, "[ALERT] cannot declare the topology; trying again in {DECLARE_AGAIN_AFTER:?}");
                    }
                    outbox.sleep(DECLARE_AGAIN_AFTER).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = declaring => {}
    }
}

/// Declares the topology, unless it was declared with the same relays. Returns whether there are relays that do not know it.
async fn declare_unless(outbox: &Outbox, declared: Option<bool>) -> Result<bool, PrepareError> {
    let topology = current_topology(outbox).await?;
    if declared != Some(topology.has_older_relays) {
        outbox.broker.declare(&topology).await?;
        outbox.outage.reachable();
    }
    Ok(topology.has_older_relays)
}

/// Starts a relay under a new random id.
pub fn start_relay(outbox: &Outbox, wake: &WakeupNotifier, settings: &RelaySettings) {
    let relay = outbox.clone();
    let wake = wake.clone();
    let settings = settings.clone();
    keep_running(&outbox.tx, "relay", move || {
        let id = RelayId::new(relay.tx.random().next(), &relay.topology);
        Relay::new(relay.clone(), wake.clone(), id, settings.clone()).run()
    });
}

/// Starts these consumers and the drainer of their dead letters.
pub fn start_consumers(outbox: &Outbox, consumers: Vec<Bound>, settings: &ConsumerSettings) {
    let settings = Arc::new(settings.clone());
    for bound in &consumers {
        let outbox = outbox.clone();
        let settings = Arc::clone(&settings);
        let named = bound.clone();
        keep_running(&outbox.tx.clone(), bound.name(), move || {
            Consumer::new(outbox.clone(), named.clone(), Arc::clone(&settings)).run()
        });
    }
    let drainer = outbox.clone();
    keep_running(&outbox.tx, "dead-letters", move || {
        DeadLetterDrainer::new(drainer.clone(), &consumers, &settings).run()
    });
}

/// Starts the task that sets the gauges of events that are not published yet: their number, and how long the longest due one
/// has been due. One query every 5 seconds, or less often if it takes long.
pub fn start_gauges(outbox: &Outbox) {
    let sampled = outbox.for_background_tasks();
    keep_running(&outbox.tx, "gauges", move || keep_sampling(sampled.clone()));
}

/// Starts the task that logs a summary of the events of this process every 10 seconds, for a log in which the lines with the
/// target [`EVENT_TARGET`](crate::EVENT_TARGET) are switched off: one line for the relay (published, retried, failed, p99 of
/// commit to confirm) and one for each consumer (applied, retried, failed, p99 of commit to effect). Nothing is logged for
/// those that had no events.
pub fn start_summary(outbox: &Outbox) {
    outbox.summary().enable();
    let (summary, tx) = (outbox.summary().clone(), outbox.tx.clone());
    keep_running(&outbox.tx, "summary", move || keep_logging(summary.clone(), tx.clone()));
}
