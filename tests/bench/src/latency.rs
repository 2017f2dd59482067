//! `latency`: from the commit of an order to the confirm of its event, and to the effect of that event. The whole
//! service runs in this process, and orders arrive at a constant rate.
//!
//! The commit is measured when the use case returns, the confirm when the broker adapter returns, the effect when the
//! consumer acks, just after the consumer's own commit. Orders that are behind schedule are still placed, so that a
//! slow service gets the same number of orders.

use std::collections::HashMap;
use std::time::Duration;

use handover_runtime::terminal::progress::Progress;
use marketplace::consumers::INVENTORY_QUEUE;
use marketplace::use_cases::PlaceOrder;
use marketplace::{App, service};
use marketplace_domain::ProductId;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::backlog;
use crate::baseline_turns::LatencyRun;
use crate::cli::Mode;
use crate::error::{BenchError, baseline_error, service_error};
use crate::event_latencies::{Latencies, percentile_ms, stages};
use crate::fixture::Fixture;
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::{Better, Figure};
use crate::series::{Series, alternate};

const UNIT: (&str, Better) = ("ms", Better::Less);
/// Timeout for outstanding effects after the last order.
const SETTLE_WITHIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of orders placed before the measured ones, to open connections and prepare statements.
const WARM_UP_ORDERS: u32 = 20;
/// Reported percentiles, each with the share of the durations that do not exceed it.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("latency", plan.turns());
    let turn = plan.latency / plan.rounds.max(1);
    let orders = orders_in(plan.rate, turn);
    let rounds = alternate(
        plan.rounds,
        progress,
        async || {
            prepare(fixture, orders).await?;
            run_service(fixture, plan.rate, orders).await
        },
        async || {
            prepare(fixture, orders).await?;
            LatencyRun::execute(fixture, plan.rate, WARM_UP_ORDERS, orders).await
        },
    )
    .await?;
    let confirm: fn(&Latencies) -> &[Duration] = |latencies| &latencies.confirm;
    let effect: fn(&Latencies) -> &[Duration] = |latencies| &latencies.effect;
    let mut figures = Vec::new();
    for (end, durations) in [("confirm", confirm), ("effect", effect)] {
        for (name, share) in PERCENTILES {
            let series = |rounds: &[Latencies]| {
                Series::new(rounds.iter().map(|round| percentile_ms(durations(round), share)).collect())
            };
            let what = format!("commit to {end}, {name}, {} orders/s", plan.rate);
            let service = series(&rounds.service);
            let mut figure = Figure::new(Mode::Latency, what, UNIT, service, series(&rounds.baseline));
            if (end, name) == ("effect", "p50") {
                figure.steps_of = 1;
                figure.steps = stages(&rounds.service);
                figure.baseline_steps = stages(&rounds.baseline);
            }
            figures.push(figure);
        }
    }
    Ok(figures)
}

fn orders_in(rate: u32, turn: Duration) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let orders = (f64::from(rate) * turn.as_secs_f64()).ceil() as u32;
    orders.max(1)
}

async fn prepare(fixture: &Fixture, orders: u32) -> Result<(), BenchError> {
    fixture.clear().await?;
    fixture.list_products(WARM_UP_ORDERS + orders).await?;
    fixture.analyze().await
}

/// Runs one round of the service with its relay, consumers and jobs.
async fn run_service(fixture: &Fixture, rate: u32, orders: u32) -> Result<Latencies, BenchError> {
    let recorder = PortRecorder::default();
    let app = fixture.app(&recorder, Some(INVENTORY_QUEUE));
    service::prepare(&app).await.map_err(service_error)?;
    fixture.spawn_background_tasks(&app);
    service::start(&app, &fixture.wake, &fixture.config.settings);
    place_orders(&app, 0..WARM_UP_ORDERS, rate).await?;
    wait_for_effects(&app, &recorder, WARM_UP_ORDERS).await?;
    let committed = place_orders(&app, WARM_UP_ORDERS..WARM_UP_ORDERS + orders, rate).await?;
    wait_for_effects(&app, &recorder, WARM_UP_ORDERS + orders).await?;
    app.tx.tasks().stop().await;
    let times = recorder.event_times();
    let mut latencies = Latencies::default();
    let created = fixture.connection().await?.created_events().await;
    for (event, order) in created.map_err(baseline_error("cannot read the outbox"))? {
        if let Some(committed) = committed.get(&order) {
            latencies.add(*committed, times.get(&event).copied().unwrap_or_default())?;
        }
    }
    Ok(latencies)
}

/// Places orders of these products at this rate and returns the commit time of each order.
async fn place_orders(
    app: &App,
    products: std::ops::Range<u32>,
    rate: u32,
) -> Result<HashMap<i64, Instant>, BenchError> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running = JoinSet::new();
    for n in products {
        ticks.tick().await;
        let app = app.clone();
        running.spawn(async move {
            let product = ProductId::try_from(i64::from(n) + 1).map_err(service_error)?;
            let context = backlog::context(n)?;
            let order = app.ordering.place(&context, PlaceOrder::of(product)).await.map_err(service_error)?;
            Ok::<_, BenchError>((order.id.get(), Instant::now()))
        });
    }
    let mut committed = HashMap::new();
    while let Some(placed) = running.join_next().await {
        let (order, at) = placed.map_err(service_error)??;
        committed.insert(order, at);
    }
    Ok(committed)
}

async fn wait_for_effects(app: &App, recorder: &PortRecorder, events: u32) -> Result<(), BenchError> {
    let deadline = Instant::now() + SETTLE_WITHIN;
    let acked = || recorder.event_times().values().filter(|times| times.acked.is_some()).count();
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    while acked() < events {
        if Instant::now() > deadline {
            let what = format!("{} of {events} events had their effect within {SETTLE_WITHIN:?}", acked());
            return Err(BenchError::Measurement(what));
        }
        app.tx.sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
