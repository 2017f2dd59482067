//! Starts what carries events, and keeps it running: the relay, the consumers, the drainer of dead letters.

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, warn};

use crate::consumers::{Bound, Consumer, DeadLetterDrainer, answered, subscribe};
use crate::operations::OperationError;
use crate::ports::{BrokerError, RelayId};
use crate::relay::Relay;
use crate::settings::{ConsumerSettings, RelaySettings};
use crate::{Outbox, Transactor, Wake};

/// The pause before a loop that panicked begins anew.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Declares the topology and subscribes every consumer, so that no event finds its queue or its consumer missing. A process
/// starts without its broker too: events wait in the outbox, and the topology is declared once the broker is back.
pub async fn prepare(outbox: &Outbox) -> Result<(), OperationError> {
    match answered(outbox.broker.declare(&outbox.topology)).await {
        Ok(()) => {}
        Err(error @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
            warn!(%error, "[ALERT] the broker is away; events wait until it comes");
        }
        Err(refused @ BrokerError::Refused { .. }) => return Err(refused.into()),
    }
    for (_, consumer) in outbox.consumers.iter() {
        subscribe(outbox, consumer).await?;
    }
    Ok(())
}

/// Starts a relay.
pub fn start_relay(outbox: &Outbox, wake: &Wake, settings: &RelaySettings) {
    let (relay, wake, settings) = (outbox.clone(), wake.clone(), settings.clone());
    keep_running(&outbox.tx, "relay", move || {
        let id = RelayId(format!("relay-{:016x}", relay.tx.chance.next()));
        Relay::new(relay.clone(), wake.clone(), id, settings.clone()).run()
    });
}

/// Starts these consumers, and the drainer of what dies at them.
pub fn start_consumers(outbox: &Outbox, consumers: Vec<Bound>, settings: &ConsumerSettings) {
    let settings = Arc::new(settings.clone());
    for bound in &consumers {
        let (outbox, settings, bound) = (outbox.clone(), Arc::clone(&settings), bound.clone());
        keep_running(&outbox.tx.clone(), bound.name(), move || {
            Consumer::new(outbox.clone(), bound.clone(), Arc::clone(&settings)).run()
        });
    }
    let drainer = outbox.clone();
    keep_running(&outbox.tx, "dead-letters", move || {
        DeadLetterDrainer::new(drainer.clone(), &consumers, &settings).run()
    });
}

/// Runs a loop as a task until the process stops; one that panics is logged and begun anew.
pub fn keep_running<F>(tx: &Transactor, what: &'static str, begin: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tasks, clock) = (tx.tasks.clone(), Arc::clone(&tx.clock));
    let supervisor = async move {
        while let Err(panic) = tasks.spawn(begin()).await {
            error!(%panic, "[{what}] [ALERT] a loop has panicked; it begins anew");
            clock.sleep(AFTER_PANIC).await;
        }
    };
    drop(tx.tasks.spawn(supervisor));
}
