//! From the commit of an order to the confirm of its event, and to the effect of that: the whole service in this process,
//! orders coming at a steady rate.
//!
//! The commit is when the use case answers, the confirm when the broker adapter answers, the effect when its commit
//! answers (just before the ack). An order that comes late is placed all the same: a slow service gets no fewer.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use handover_application::runtime::Roles;
use handover_application::topology::INVENTORY_QUEUE;
use handover_application::use_cases::{PlaceOrder, place_order};
use handover_application::{App, runtime};
use handover_domain::ProductId;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::backlog;
use super::baseline::Chain;
use super::error::{failed, odd};
use super::fixture::Ground;
use super::port_recorder::{Moments, Tap};
use super::report::{Better, Figure, Step};
use super::series::{Plan, Series, by_turns};
use crate::cli::BenchMode;
use handover::Failure;
use handover::progress::Progress;

const UNIT: (&str, Better) = ("ms", Better::Less);
/// How long effects are waited for when no more orders come.
const SETTLE_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// The orders before those that count: connections, statements and plans are made with them.
const WARM: u32 = 20;

/// How long each event of a round took.
#[derive(Debug, Clone, Default)]
pub(super) struct Waits {
    pub(super) confirm: Vec<Duration>,
    pub(super) effect: Vec<Duration>,
    /// The legs of the way.
    legs: BTreeMap<&'static str, Vec<Duration>>,
}

pub(super) async fn measure(
    plan: &Plan,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    progress.phase("latency", plan.turns());
    let length = plan.latency / plan.rounds.max(1);
    let orders = orders_in(plan.rate, length);
    let (ours, ceiling) = by_turns(
        plan.rounds,
        progress,
        async || {
            ready(ground, orders).await?;
            ours(ground, plan.rate, orders).await
        },
        async || {
            ready(ground, orders).await?;
            Chain::run(ground, plan.rate, WARM, orders).await
        },
    )
    .await?;
    let mut figures = Vec::new();
    for (way, of) in [
        ("confirm", (|waits| &waits.confirm) as fn(&Waits) -> &Vec<Duration>),
        ("effect", |waits| &waits.effect),
    ] {
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
            let series = |rounds: &[Waits]| {
                Series::of(rounds.iter().map(|waits| percentile(of(waits), share)).collect())
            };
            let what = format!("commit to {way}, {name}, {} orders/s", plan.rate);
            let mut figure = Figure::new(BenchMode::Latency, what, UNIT, series(&ours), series(&ceiling));
            if (way, name) == ("effect", "p50") {
                figure.steps_of = 1;
                (figure.steps, figure.ceiling_steps) = (legs(&ours), legs(&ceiling));
            }
            figures.push(figure);
        }
    }
    Ok(figures)
}

fn orders_in(rate: u32, length: Duration) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, and it saturates")]
    let orders = (f64::from(rate) * length.as_secs_f64()).ceil() as u32;
    orders.max(1)
}

async fn ready(ground: &Ground, orders: u32) -> Result<(), Failure> {
    ground.clear().await?;
    ground.products(WARM + orders).await?;
    ground.settle().await
}

/// The wait that this share of them is not longer than, in milliseconds.
fn percentile(waits: &[Duration], share: f64) -> f64 {
    let mut sorted = waits.to_vec();
    sorted.sort_unstable();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of a list that was counted"
    )]
    let index = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(index).map(Duration::as_secs_f64).unwrap_or_default() * 1_000.0
}

fn legs(rounds: &[Waits]) -> Vec<Step> {
    let names: BTreeMap<_, _> = rounds.iter().flat_map(|waits| &waits.legs).collect();
    names
        .into_keys()
        .map(|name| {
            let medians = rounds.iter().filter_map(|waits| waits.legs.get(name));
            let ms = Series::of(medians.map(|waits| percentile(waits, 0.5)).collect()).median;
            Step { name: (*name).to_owned(), ms, statements: None }
        })
        .collect()
}

impl Waits {
    /// Adds an event. Its moments are in the order in which they happened, or nearly.
    pub(super) fn add(&mut self, committed: Instant, moments: Moments) -> Result<(), Failure> {
        let missing = || Failure::Bench("an event came to no effect in time".to_owned());
        let Moments { handed_over, confirmed, delivered, acked } = moments;
        let (handed_over, confirmed) = (handed_over.ok_or_else(missing)?, confirmed.ok_or_else(missing)?);
        let (delivered, acked) = (delivered.ok_or_else(missing)?, acked.ok_or_else(missing)?);
        self.confirm.push(confirmed.saturating_duration_since(committed));
        self.effect.push(acked.saturating_duration_since(committed));
        for (name, from, to) in [
            ("1 commit to publish", committed, handed_over),
            ("2 publish to delivery", handed_over, delivered),
            ("3 delivery to effect", delivered, acked),
        ] {
            self.legs.entry(name).or_default().push(to.saturating_duration_since(from));
        }
        Ok(())
    }
}

/// By the service: relay, consumers and jobs.
async fn ours(ground: &Ground, rate: u32, orders: u32) -> Result<Waits, Failure> {
    let tap = Tap::default();
    let app = ground.app(&tap, Some(INVENTORY_QUEUE));
    runtime::prepare(&app).await.map_err(odd)?;
    ground.keep_in_touch(&app);
    runtime::start(&app, &ground.wake, Roles::ALL, &ground.config.settings);
    place(&app, 0..WARM, rate).await?;
    settled(&app, &tap, WARM).await?;
    let committed = place(&app, WARM..WARM + orders, rate).await?;
    settled(&app, &tap, WARM + orders).await?;
    app.tx.tasks.stop().await;
    let moments = tap.moments();
    let mut waits = Waits::default();
    let created = ground.session().await?.created().await;
    for (event, order) in created.map_err(failed("the outbox cannot be read"))? {
        if let Some(committed) = committed.get(&order) {
            waits.add(*committed, moments.get(&event).copied().unwrap_or_default())?;
        }
    }
    Ok(waits)
}

/// Places the orders of these products at that rate; tells when each was committed.
async fn place(
    app: &App,
    products: std::ops::Range<u32>,
    rate: u32,
) -> Result<HashMap<i64, Instant>, Failure> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut placing = JoinSet::new();
    for n in products {
        ticks.tick().await;
        let app = app.clone();
        placing.spawn(async move {
            let product = ProductId::try_from(i64::from(n) + 1).map_err(odd)?;
            let order =
                place_order(&app, &backlog::context(n)?, PlaceOrder::of(product)).await.map_err(odd)?;
            Ok::<_, Failure>((order.id.get(), Instant::now()))
        });
    }
    let mut committed = HashMap::new();
    while let Some(placed) = placing.join_next().await {
        let (order, at) = placed.map_err(odd)??;
        committed.insert(order, at);
    }
    Ok(committed)
}

/// Waits until so many events came to their effect.
async fn settled(app: &App, tap: &Tap, events: u32) -> Result<(), Failure> {
    let deadline = Instant::now() + SETTLE_WITHIN;
    let done = || tap.moments().values().filter(|moments| moments.acked.is_some()).count();
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    while done() < events {
        if Instant::now() > deadline {
            let what = format!("{} of {events} effects came within {SETTLE_WITHIN:?}", done());
            return Err(Failure::Bench(what));
        }
        app.tx.clock.sleep(LOOK).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_waits() {
        let waits: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&waits, share)), [100.0, 198.0, 200.0]);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn an_event_without_an_effect_is_no_fast_one() {
        let now = Instant::now();
        assert!(Waits::default().add(now, Moments { confirmed: Some(now), ..Moments::default() }).is_err());
    }
}
