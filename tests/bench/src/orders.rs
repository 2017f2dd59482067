//! Orders placed through the use case, by some clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use handover_application::use_cases::{PlaceOrder, place_order};
use handover_domain::ProductId;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backlog;
use super::baseline;
use super::error::odd;
use super::fixture::Ground;
use super::measurement::{Took, rates, steps};
use super::port_recorder::Tap;
use super::report::{Better, Figure};
use super::series::{Plan, by_turns};
use crate::cli::BenchMode;
use handover::Failure;
use handover::progress::Progress;

const UNIT: (&str, Better) = ("orders/s", Better::More);
/// Products listed for each second of a turn; should they run out, the turn is shorter.
const PER_SECOND: f64 = 20_000.0;

pub(super) async fn measure(
    plan: &Plan,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    progress.phase("orders", plan.turns() * plan.clients.len());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, and it saturates")]
    let products = (PER_SECOND * plan.turn.as_secs_f64()).ceil() as u32;
    let mut figures = Vec::new();
    for clients in plan.clients.iter().copied() {
        let connections = clients.min(ground.connections());
        let (ours, ceiling) = by_turns(
            plan.rounds,
            progress,
            async || {
                ready(ground, products).await?;
                ours(ground, clients, products, plan).await
            },
            async || {
                ready(ground, products).await?;
                baseline::orders(ground, connections, products, plan.turn).await
            },
        )
        .await?;
        let what = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let mut figure = Figure::new(BenchMode::Orders, what, UNIT, rates(&ours), rates(&ceiling));
        (figure.steps, figure.ceiling_steps) = (steps(&ours), steps(&ceiling));
        figures.push(figure);
    }
    Ok(figures)
}

async fn ready(ground: &Ground, products: u32) -> Result<(), Failure> {
    ground.clear().await?;
    ground.products(products).await?;
    ground.settle().await
}

/// By the use case of the service.
async fn ours(ground: &Ground, clients: u32, products: u32, plan: &Plan) -> Result<Took, Failure> {
    let app = ground.app(&Tap::default(), None);
    let (next, turn) = (Arc::new(AtomicU32::new(0)), plan.turn);
    drop(ground.statements.take());
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (app, next) = (app.clone(), Arc::clone(&next));
        running.spawn(async move {
            let mut placed = 0u64;
            while begun.elapsed() < turn {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= products {
                    break;
                }
                let product = ProductId::try_from(i64::from(n) + 1).map_err(odd)?;
                place_order(&app, &backlog::context(n)?, PlaceOrder::of(product)).await.map_err(odd)?;
                placed += 1;
            }
            Ok::<_, Failure>(placed)
        });
    }
    let mut placed = 0;
    while let Some(client) = running.join_next().await {
        placed += client.map_err(odd)??;
    }
    let took = Took::new(placed, begun.elapsed()).by(clients);
    Ok(took.with_statements(ground.statements.take()))
}
