//! Maintains the declared topology: declares missing objects again, and ends subscriptions whose consumer the server
//! no longer has, so that the owner subscribes again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::BrokerError;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::shared::Shared;
use crate::topology::{count, declare};

/// Shortest pause between two checks, even if more are requested.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// Pause between two checks while something is missing, and the time for which the server must report no consumer before
/// the subscription is ended. The server also reports no consumer for a queue without a leader.
const MISSING_PAUSE: Duration = Duration::from_secs(2);

/// Queues for which the server reported no consumer although this process is subscribed, with the time of the first
/// report.
type MissingConsumers = BTreeMap<String, Instant>;

/// What the server did not have at the last check.
#[derive(Default)]
struct Missing {
    consumers: MissingConsumers,
    /// Exchanges of other services.
    exchanges: BTreeSet<String>,
}

impl Missing {
    fn is_empty(&self) -> bool {
        self.consumers.is_empty() && self.exchanges.is_empty()
    }
}

/// Checks the topology periodically until the task is aborted.
#[allow(clippy::disallowed_methods, reason = "a real server is checked in real time")]
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut logged_refusal = None;
    let mut missing = Missing::default();
    loop {
        tokio::time::sleep(SHORTEST_PAUSE).await;
        let pause = if missing.is_empty() { shared.settings.watch_interval } else { MISSING_PAUSE };
        // The topology is checked after the pause, or earlier after a notification.
        let _ = tokio::time::timeout(pause, shared.recheck.notified()).await;
        match check(&shared, &mut missing).await {
            Ok(()) => logged_refusal = None,
            // Not logged here, because the connector logs outages.
            Err(BrokerError::Unreachable(_) | BrokerError::Closed { .. }) => {}
            Err(BrokerError::Refused { what }) => {
                if logged_refusal.as_ref() != Some(&what) {
                    error!(code = "rabbitmq.topology-refused", %what, "[RabbitMQ] [ALERT] cannot declare the topology; trying again at the next check");
                }
                logged_refusal = Some(what);
            }
        }
    }
}

async fn check(shared: &Shared, missing: &mut Missing) -> Result<(), BrokerError> {
    let Some(topology) = shared.topology() else { return Ok(()) };
    let link =
        shared.consuming.link().await.map_err(crate::error::RabbitError::into_refused_or_unreachable)?;
    let names: Vec<String> = topology.queues.iter().map(|spec| spec.name.clone()).collect();
    let existing: BTreeSet<String> =
        count(&link, &names, &shared.settings).await?.into_iter().map(|counted| counted.name).collect();
    for name in names.iter().filter(|name| !existing.contains(*name)) {
        warn!(code = "rabbitmq.queue-missing", queue = %name, "[RabbitMQ] [ALERT] queue missing; declaring it again");
    }
    // The subscriptions are listed before the server is queried. The query may not count the consumer of a subscription
    // that is opened later; if that subscription were listed, its consumer would appear to be missing.
    let buffers = shared.buffers();
    let mut existing_limits = shared.declaring.lock().await;
    existing_limits.retain(&existing);
    // Another one may have been added meanwhile.
    let Some(topology) = shared.topology() else { return Ok(()) };
    let declared = declare(&link, &topology, &shared.settings, &mut existing_limits).await?;
    shared.set_declared(&topology);
    drop(existing_limits);
    for exchange in declared.missing_exchanges.difference(&missing.exchanges) {
        error!(
            code = "rabbitmq.exchange-missing",
            exchange,
            "[RabbitMQ] [ALERT] the exchange of another service does not exist, so its events are not received; \
            start that service, or correct the name of the exchange; trying again every {MISSING_PAUSE:?}"
        );
    }
    for exchange in missing.exchanges.difference(&declared.missing_exchanges) {
        info!(
            code = "rabbitmq.exchange-bound",
            exchange, "[RabbitMQ] the exchange of another service exists; its events are received"
        );
    }
    missing.exchanges = declared.missing_exchanges;
    let now = Instant::now();
    let mut still_missing = MissingConsumers::new();
    for queue in declared.queues.iter().filter(|queue| queue.consumers == 0) {
        let since = missing.consumers.get(&queue.name).copied().unwrap_or(now);
        for buffer in buffers.iter().filter(|buffer| buffer.queue() == queue.name && !buffer.has_ended()) {
            if now - since < MISSING_PAUSE {
                still_missing.insert(queue.name.clone(), since);
            } else {
                warn!(
                    code = "rabbitmq.consumer-missing",
                    queue = queue.name,
                    "[RabbitMQ] the server has no consumer of this process; subscribing again"
                );
                buffer.end();
            }
        }
    }
    missing.consumers = still_missing;
    Ok(())
}
