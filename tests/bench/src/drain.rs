//! A backlog of the outbox until every event is confirmed and its row says so.

use std::num::NonZeroU32;

use handover_application::RelaySettings;
use handover_application::ports::RelayId;
use handover_application::relay::Relay;
use tokio::time::{Duration, Instant};

use super::backlog::{self, Backlog};
use super::baseline;
use super::error::failed;
use super::fixture::Ground;
use super::measurement::{Took, rates, steps};
use super::memory;
use super::port_recorder::Tap;
use super::report::{Better, Figure};
use super::series::{Plan, by_turns};
use crate::cli::BenchMode;
use handover::Failure;
use handover::progress::Progress;

pub(super) const UNIT: (&str, Better) = ("events/s", Better::More);
/// How often it is looked whether the last window is settled.
const LOOK: Duration = Duration::from_millis(1);
pub(super) async fn measure(
    plan: &Plan,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    progress.phase("drain", plan.turns());
    let (ours, ceiling) = by_turns(
        plan.rounds,
        progress,
        async || {
            ready(ground, plan.events).await?;
            ours(ground, plan.events, plan.batch).await
        },
        async || {
            ready(ground, plan.events).await?;
            baseline::drain(ground, plan.batch.get()).await
        },
    )
    .await?;
    let what = format!("{} events", plan.events);
    let mut figure = Figure::new(BenchMode::Drain, what, UNIT, rates(&ours), rates(&ceiling));
    figure.memory = memory::greatest(ours.iter().filter_map(|took| took.memory));
    (figure.steps, figure.ceiling_steps) = (steps(&ours), steps(&ceiling));
    Ok(vec![figure])
}

async fn ready(ground: &Ground, events: u32) -> Result<(), Failure> {
    ground.clear().await?;
    backlog::events(&ground.app(&Tap::default(), None), events, Backlog::Placed).await?;
    ground.settle().await
}

/// By the relay of the service. It is timed from its first look for events on: before, it takes its partitions.
pub(super) async fn ours(ground: &Ground, events: u32, batch: NonZeroU32) -> Result<Took, Failure> {
    let tap = Tap::default();
    let app = ground.app(&tap, None);
    let settings = RelaySettings { batch, ..ground.config.settings.relay.clone() };
    let id = RelayId(format!("bench-{:016x}", app.tx.chance.next()));
    let mut session = ground.session().await?;
    let before = memory::begin();
    drop(ground.statements.take());
    let relay = Relay::new(app.clone(), ground.wake.clone(), id, settings);
    let relay = app.tx.tasks.spawn(relay.run());
    tap.confirmed(u64::from(events)).await;
    while session.has_pending().await.map_err(failed("the outbox cannot be read"))? {
        app.tx.clock.sleep(LOOK).await;
    }
    let ended = Instant::now();
    let (spent, memory) = (ground.statements.take(), memory::end(before));
    app.tx.tasks.stop().await;
    drop(relay);
    let took = Took::new(u64::from(events), ended - tap.first_look().unwrap_or(ended));
    let (publish, ..) = tap.broker_time();
    Ok(took.with_statements(spent).with("publish", publish).within(memory))
}
