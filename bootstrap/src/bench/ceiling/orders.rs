//! The statements of an order in a bare transaction, by as many connections as the service has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use handover_application::ports::Clock as _;
use handover_bare::Order;
use handover_system::SystemClock;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::Failure;
use crate::bench::fill;
use crate::bench::ground::Ground;
use crate::bench::stop::{failed, refuse};

/// Places orders of products 1 to `products` on `connections` connections until the time is over; tells how many in
/// how long.
pub(in crate::bench) async fn orders(
    ground: &Ground,
    connections: u32,
    products: u32,
    turn: Duration,
) -> Result<(u64, Duration), Failure> {
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
            let mut placed = 0u64;
            while begun.elapsed() < turn {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= products {
                    break;
                }
                let order = Order {
                    id: i64::from(n) + 1,
                    tenant_id: 1,
                    product_id: i64::from(n) + 1,
                    buyer_id: fill::buyer(n)?.get(),
                    at: SystemClock.now(),
                };
                session.place(&order).await.map_err(failed("a plain order"))?;
                placed += 1;
            }
            Ok::<_, Failure>(placed)
        };
        clients.spawn(client);
    }
    let mut placed = 0;
    while let Some(client) = clients.join_next().await {
        placed += client.map_err(|panic| refuse(&panic, "report this"))??;
    }
    Ok((placed, begun.elapsed()))
}
