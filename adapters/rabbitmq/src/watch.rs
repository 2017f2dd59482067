//! Looks after what was declared: whatever disappears is declared again, and a consumer that the server has forgotten
//! is ended, so that its owner subscribes anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::BrokerError;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::shared::Shared;
use crate::topology::{count, declare};

/// Between two looks, however often one is asked for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// How long the server knows of no consumer before that is believed: it also says so of a queue that has no leader at
/// the moment.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);

/// Queues of which the server knew no consumer when it was last asked, although we are one; and since when.
type Forgotten = BTreeMap<String, Instant>;

/// Looks again and again, until it is aborted.
#[allow(clippy::disallowed_methods, reason = "a real server is looked after on real time")]
pub(crate) async fn run(shared: Arc<Shared>) {
    let (mut told, mut forgotten) = (None, Forgotten::new());
    loop {
        tokio::time::sleep(SHORTEST_PAUSE).await;
        let pause = if forgotten.is_empty() { shared.settings.watch_interval } else { FORGOTTEN_AFTER };
        // Elapsed or rung: it is time.
        let _ = tokio::time::timeout(pause, shared.look_again.notified()).await;
        match look(&shared, &mut forgotten).await {
            Ok(()) => told = None,
            // The connector tells of an outage.
            Err(BrokerError::Unreachable(_) | BrokerError::Closed { .. }) => {}
            Err(BrokerError::Refused { what }) => {
                if told.as_ref() != Some(&what) {
                    error!(%what, "[RabbitMQ] [ALERT] the topology cannot be declared");
                }
                told = Some(what);
            }
        }
    }
}

async fn look(shared: &Shared, forgotten: &mut Forgotten) -> Result<(), BrokerError> {
    let Some(topology) = shared.topology() else { return Ok(()) };
    let link = shared.consuming.link().await.map_err(crate::fault::Fault::refused_or_away)?;
    let names: Vec<String> = topology.queues.iter().map(|spec| spec.name.clone()).collect();
    let there: BTreeSet<String> =
        count(&link, &names, &shared.settings).await?.into_iter().map(|counted| counted.name).collect();
    for name in names.iter().filter(|name| !there.contains(*name)) {
        warn!(queue = %name, "[RabbitMQ] [ALERT] a queue has disappeared; declaring it again");
    }
    // Those that were there before the server was asked, or a new one would look forgotten.
    let inboxes = shared.inboxes();
    let counted = declare(&link, &topology, &shared.settings).await?;
    let now = Instant::now();
    let mut still = Forgotten::new();
    for queue in counted.iter().filter(|queue| queue.consumers == 0) {
        let since = forgotten.get(&queue.name).copied().unwrap_or(now);
        for inbox in inboxes.iter().filter(|inbox| inbox.queue() == queue.name && !inbox.has_ended()) {
            if now - since < FORGOTTEN_AFTER {
                still.insert(queue.name.clone(), since);
            } else {
                warn!(queue = queue.name, "[RabbitMQ] the server knows of no consumer; subscribing anew");
                inbox.end();
            }
        }
    }
    *forgotten = still;
    Ok(())
}
