//! Orders of the baseline: the statements of an order in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::backlog;
use crate::baseline::Order;
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::Measurement;

/// Places orders of the products 1 to `products` on `connections` connections, until the turn is over or all products
/// are sold.
pub(crate) async fn orders(
    fixture: &Fixture,
    connections: u32,
    products: u32,
    turn: Duration,
) -> Result<Measurement, BenchError> {
    let mut idle = Vec::new();
    for _ in 0..connections {
        idle.push(fixture.connection().await?);
    }
    let next = Arc::new(AtomicU32::new(0));
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for mut connection in idle {
        let next = Arc::clone(&next);
        let client = async move {
            let mut placed = 0u64;
            let mut steps = BTreeMap::<_, Duration>::new();
            while started.elapsed() < turn {
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
                let order = connection.place(&order).await;
                for (step, time) in order.map_err(baseline_error("an order of the baseline"))?.steps {
                    *steps.entry(step).or_default() += time;
                }
                placed += 1;
            }
            Ok::<_, BenchError>((placed, steps))
        };
        clients.spawn(client);
    }
    let mut placed = 0;
    let mut steps = BTreeMap::<_, Duration>::new();
    while let Some(client) = clients.join_next().await {
        let (orders, times) = client.map_err(service_error)??;
        placed += orders;
        for (step, time) in times {
            *steps.entry(step).or_default() += time;
        }
    }
    Ok(Measurement::new(placed, started.elapsed()).by_workers(connections).with_steps(steps))
}
