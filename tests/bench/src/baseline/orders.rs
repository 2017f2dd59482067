//! The statements of an order in a bare transaction, by as many connections as the service has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::baseline::Order;
use handover_application::ports::Clock as _;
use handover_system::SystemClock;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::backlog;
use crate::error::{failed, odd};
use crate::fixture::Ground;
use crate::measurement::Took;
use handover::Failure;

/// Places orders of products 1 to `products` on `connections` connections until the time is over.
pub(crate) async fn orders(
    ground: &Ground,
    connections: u32,
    products: u32,
    turn: Duration,
) -> Result<Took, Failure> {
    let mut sessions = Vec::new();
    for _ in 0..connections {
        sessions.push(ground.session().await?);
    }
    let next = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for mut session in sessions {
        let next = Arc::clone(&next);
        let client = async move {
            let (mut placed, mut parts) = (0u64, BTreeMap::<_, Duration>::new());
            while begun.elapsed() < turn {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= products {
                    break;
                }
                let order = Order {
                    id: i64::from(n) + 1,
                    tenant_id: 1,
                    product_id: i64::from(n) + 1,
                    buyer_id: backlog::buyer(n)?.get(),
                    at: SystemClock.now(),
                };
                let done = session.place(&order).await.map_err(failed("a plain order"))?;
                for (part, time) in done.parts {
                    *parts.entry(part).or_default() += time;
                }
                placed += 1;
            }
            Ok::<_, Failure>((placed, parts))
        };
        clients.spawn(client);
    }
    let (mut placed, mut parts) = (0, BTreeMap::<_, Duration>::new());
    while let Some(client) = clients.join_next().await {
        let (orders, times) = client.map_err(odd)??;
        placed += orders;
        for (part, time) in times {
            *parts.entry(part).or_default() += time;
        }
    }
    Ok(Took::new(placed, begun.elapsed()).by(connections).with_all(parts))
}
