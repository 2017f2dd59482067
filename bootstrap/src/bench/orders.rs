//! Orders placed through the use case, by some clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use handover_application::use_cases::{PlaceOrder, place_order};
use handover_domain::ProductId;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::ceiling::{self};
use super::fill;
use super::ground::Ground;
use super::measure::{Plan, by_turns, per_second};
use super::report::Figure;
use super::stop::refuse;
use super::tap::Tap;
use crate::Failure;
use crate::progress::Progress;

const PER_SECOND: u32 = 20_000;

pub(super) async fn measure(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Vec<Figure>, Failure> {
    progress.phase("orders", plan.rounds as usize * 2 * plan.clients.len());
    let mut figures = Vec::new();
    let products = (f64::from(PER_SECOND) * plan.turn.as_secs_f64()) as u32;
    for clients in &plan.clients {
        let (ours, ceiling) = by_turns(
            plan.rounds,
            async || {
                ready(ground, products).await?;
                let (placed, took) = ours(ground, *clients, products, plan.turn).await?;
                progress.step();
                Ok(per_second(placed, took))
            },
            async || {
                ready(ground, products).await?;
                let connections = (*clients).min(8);
                let (placed, took) = ceiling::orders(ground, connections, products, plan.turn).await?;
                progress.step();
                Ok(per_second(placed, took))
            },
        )
        .await?;
        figures.push(Figure::new(format!("orders, {clients} clients"), "orders/s", ours, ceiling));
    }
    Ok(figures)
}

async fn ready(ground: &Ground, products: u32) -> Result<(), Failure> {
    ground.clear().await?;
    let app = ground.app(&Tap::default(), None)?;
    fill::products(&app, products).await?;
    ground.analyze().await
}

async fn ours(ground: &Ground, clients: u32, products: u32, turn: Duration) -> Result<(u64, Duration), Failure> {
    let app = ground.app(&Tap::default(), None)?;
    let next = Arc::new(AtomicU32::new(0));
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
                let product = ProductId::try_from(i64::from(n) + 1).map_err(|e| refuse(&e, "report this"))?;
                place_order(&app, &fill::context(n)?, PlaceOrder { product })
                    .await
                    .map_err(|e| refuse(&e, "report this"))?;
                placed += 1;
            }
            Ok::<_, Failure>(placed)
        });
    }
    let mut placed = 0;
    while let Some(client) = running.join_next().await {
        placed += client.map_err(|panic| refuse(&panic, "report this"))??;
    }
    Ok((placed, begun.elapsed()))
}
