//! `latency`: from the commit of an order to the confirm of its event, and to the effect of that event. The whole
//! service runs in this process, and orders arrive at a constant rate.
//!
//! The commit is measured when the use case returns, the confirm when the broker adapter returns, the effect when the
//! consumer acks, just after the consumer's own commit. Orders that are behind schedule are still placed, so that a
//! slow service gets the same number of orders.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use marketplace::queues::INVENTORY_QUEUE;
use marketplace::service::Roles;
use marketplace::use_cases::{PlaceOrder, place_order};
use marketplace::{App, service};
use marketplace_domain::ProductId;
use marketplace_wiring::terminal::progress::Progress;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::backlog;
use crate::baseline::LatencyRun;
use crate::cli::Mode;
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::plan::Plan;
use crate::port_recorder::{EventTimes, PortRecorder};
use crate::report::{Better, Figure, Step};
use crate::series::{Series, alternate};

const UNIT: (&str, Better) = ("ms", Better::Less);
/// Timeout for outstanding effects after the last order.
const SETTLE_WITHIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of orders placed before the measured ones, to open connections and prepare statements.
const WARM_UP_ORDERS: u32 = 20;
/// Reported percentiles, each with the share of the durations that do not exceed it.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];

/// Durations of the measured events of a round, from the commit of their orders.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    pub(crate) confirm: Vec<Duration>,
    pub(crate) effect: Vec<Duration>,
    /// The stages between commit and effect.
    stages: BTreeMap<&'static str, Vec<Duration>>,
}

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

/// The duration that this share of the durations does not exceed (nearest rank), in milliseconds.
pub fn percentile_ms(durations: &[Duration], share: f64) -> f64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the index is within the list"
    )]
    let index = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(index).map(Duration::as_secs_f64).unwrap_or_default() * 1_000.0
}

fn stages(rounds: &[Latencies]) -> Vec<Step> {
    let names: BTreeMap<_, _> = rounds.iter().flat_map(|round| &round.stages).collect();
    names
        .into_keys()
        .map(|name| {
            let durations = rounds.iter().filter_map(|round| round.stages.get(name));
            let medians = durations.map(|durations| percentile_ms(durations, 0.5)).collect();
            Step { name: (*name).to_owned(), ms: Series::new(medians).median, statements: None }
        })
        .collect()
}

impl Latencies {
    /// Adds an event. Its times are ascending, except for races between tasks.
    ///
    /// # Errors
    /// An event without a confirm or an effect makes the round invalid: omitting it would improve the figure.
    pub fn add(&mut self, committed: Instant, times: EventTimes) -> Result<(), BenchError> {
        let missing = || BenchError::Measurement("an event had no effect within the timeout".to_owned());
        let published = times.published.ok_or_else(missing)?;
        let confirmed = times.confirmed.ok_or_else(missing)?;
        let delivered = times.delivered.ok_or_else(missing)?;
        let acked = times.acked.ok_or_else(missing)?;
        self.confirm.push(confirmed.saturating_duration_since(committed));
        self.effect.push(acked.saturating_duration_since(committed));
        for (name, from, to) in [
            ("1 commit to publish", committed, published),
            ("2 publish to delivery", published, delivered),
            ("3 delivery to effect", delivered, acked),
        ] {
            self.stages.entry(name).or_default().push(to.saturating_duration_since(from));
        }
        Ok(())
    }
}

/// Runs one round of the service with its relay, consumers and jobs.
async fn run_service(fixture: &Fixture, rate: u32, orders: u32) -> Result<Latencies, BenchError> {
    let recorder = PortRecorder::default();
    let app = fixture.app(&recorder, Some(INVENTORY_QUEUE));
    service::prepare(&app).await.map_err(service_error)?;
    fixture.spawn_background_tasks(&app);
    service::start(&app, &fixture.wake, Roles::ALL, &fixture.config.settings);
    place_orders(&app, 0..WARM_UP_ORDERS, rate).await?;
    wait_for_effects(&app, &recorder, WARM_UP_ORDERS).await?;
    let committed = place_orders(&app, WARM_UP_ORDERS..WARM_UP_ORDERS + orders, rate).await?;
    wait_for_effects(&app, &recorder, WARM_UP_ORDERS + orders).await?;
    app.tx.tasks.stop().await;
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
            let order = place_order(&app, &context, PlaceOrder::of(product)).await.map_err(service_error)?;
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
        app.tx.clock.sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
