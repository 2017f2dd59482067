//! `orders`: orders placed through the use case by concurrent clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use handover_runtime::terminal::progress::Progress;
use marketplace::use_cases::PlaceOrder;
use marketplace_domain::ProductId;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cli::Mode;
use crate::error::{BenchError, service_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::{Better, Figure};
use crate::series::alternate;
use crate::{backlog, baseline_turns};

const UNIT: (&str, Better) = ("orders/s", Better::More);
/// Number of products listed for each second of a turn; a turn ends early when all of them are sold.
const PRODUCTS_PER_SECOND: f64 = 20_000.0;

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("orders", plan.turns() * plan.clients.len());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let products = (PRODUCTS_PER_SECOND * plan.orders_turn.as_secs_f64()).ceil() as u32;
    let mut figures = Vec::new();
    for clients in plan.clients.iter().copied() {
        let connections = clients.min(fixture.connections());
        let rounds = alternate(
            plan.rounds,
            progress,
            async || {
                prepare(fixture, products).await?;
                place_orders(fixture, clients, products, plan).await
            },
            async || {
                prepare(fixture, products).await?;
                baseline_turns::orders(fixture, connections, products, plan.orders_turn).await
            },
        )
        .await?;
        let what = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let mut figure =
            Figure::new(Mode::Orders, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
        figure.steps = steps(&rounds.service);
        figure.baseline_steps = steps(&rounds.baseline);
        figures.push(figure);
    }
    Ok(figures)
}

async fn prepare(fixture: &Fixture, products: u32) -> Result<(), BenchError> {
    fixture.clear().await?;
    fixture.list_products(products).await?;
    fixture.analyze().await
}

async fn place_orders(
    fixture: &Fixture,
    clients: u32,
    products: u32,
    plan: &Plan,
) -> Result<Measurement, BenchError> {
    let app = fixture.app(&PortRecorder::default(), None);
    let next = Arc::new(AtomicU32::new(0));
    let turn = plan.orders_turn;
    fixture.statements.reset();
    let started = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let app = app.clone();
        let next = Arc::clone(&next);
        running.spawn(async move {
            let mut placed = 0u64;
            while started.elapsed() < turn {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= products {
                    break;
                }
                let product = ProductId::try_from(i64::from(n) + 1).map_err(service_error)?;
                let order = PlaceOrder::of(product);
                app.ordering.place(&backlog::context(n)?, order).await.map_err(service_error)?;
                placed += 1;
            }
            Ok::<_, BenchError>(placed)
        });
    }
    let mut placed = 0;
    while let Some(client) = running.join_next().await {
        placed += client.map_err(service_error)??;
    }
    let measurement = Measurement::new(placed, started.elapsed()).by_workers(clients);
    Ok(measurement.with_statements(fixture.statements.take()))
}
