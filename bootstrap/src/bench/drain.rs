//! A backlog of the outbox until every event is confirmed and its row says so.

use std::num::NonZeroU32;

use handover_application::RelaySettings;
use handover_application::ports::RelayId;
use handover_application::relay::Relay;
use tokio::time::{Duration, Instant};

use super::ceiling::{self, Took};
use super::fill::{self, Backlog};
use super::ground::Ground;
use super::measure::{Plan, by_turns, per_second};
use super::report::Figure;
use super::stop::failed;
use super::tap::Tap;
use crate::Failure;
use crate::progress::Progress;

/// How often it is looked whether the last window is settled.
const LOOK: Duration = Duration::from_millis(1);

pub(super) async fn measure(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Vec<Figure>, Failure> {
    progress.phase("drain", plan.rounds as usize * 2);
    let (ours, ceiling) = by_turns(
        plan.rounds,
        async || {
            ready(ground, plan.events).await?;
            let took = ours(ground, plan.events, plan.batch).await;
            progress.step();
            took
        },
        async || {
            ready(ground, plan.events).await?;
            let took = ceiling::drain(ground, plan.batch.get()).await;
            progress.step();
            took
        },
    )
    .await?;
    Ok(vec![Figure::of_rates("drain", "events/s", u64::from(plan.events), &ours, &ceiling)])
}

async fn ready(ground: &Ground, events: u32) -> Result<(), Failure> {
    ground.clear().await?;
    let app = ground.app(&Tap::default(), None)?;
    fill::events(&app, events, Backlog::Placed).await?;
    ground.analyze().await
}

/// By the relay of the service.
pub(super) async fn ours(ground: &Ground, events: u32, batch: NonZeroU32) -> Result<Took, Failure> {
    let tap = Tap::default();
    let app = ground.app(&tap, None)?;
    let settings = RelaySettings { batch, ..RelaySettings::default() };
    let id = RelayId(format!("bench-{:016x}", app.tx.chance.next()));
    let relay = Relay::new(app.clone(), ground.wake.clone(), id, settings);
    let running = app.tx.tasks.spawn(relay.run());
    tap.confirmed(u64::from(events)).await;
    let mut session = ground.session().await?;
    let pending = "SELECT count(*) FROM (SELECT id FROM outbox_events WHERE status IN ('NEW', 'RETRY') LIMIT 1) p";
    while session.number(pending).await.map_err(failed("looking at the outbox"))? > 0 {
        tokio::time::sleep(LOOK).await;
    }
    let ended = Instant::now();
    app.tx.tasks.stop().await;
    drop(running);
    let all = ended - tap.first_look().unwrap_or(ended);
    let (publish, ..) = tap.broker_time();
    Ok(Took { all, steps: vec![("publish", publish), ("database", all.saturating_sub(publish))] })
}

#[allow(dead_code)]
fn rate(events: u32, took: &Took) -> f64 {
    per_second(u64::from(events), took.all)
}
