//! A backlog of a queue until every message is applied and acked.

use std::sync::Arc;

use handover_application::ConsumerSettings;
use handover_application::consumers::{Consumer, Fulfillment, Subscriber};
use handover_application::topology::FULFILLMENT_QUEUE;
use tokio::time::Instant;

use super::ceiling::{self, Took};
use super::drain;
use super::fill::{self, Backlog};
use super::ground::Ground;
use super::measure::{Plan, by_turns};
use super::report::Figure;
use super::tap::Tap;
use crate::Failure;
use crate::progress::Progress;

pub(super) async fn measure(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Vec<Figure>, Failure> {
    progress.phase("consume", plan.rounds as usize * 2);
    let events = u64::from(plan.events);
    let (ours, ceiling) = by_turns(
        plan.rounds,
        async || {
            ready(ground, plan).await?;
            let took = ours(ground, plan).await;
            progress.step();
            took
        },
        async || {
            ready(ground, plan).await?;
            let took = ceiling::consume(ground, FULFILLMENT_QUEUE, plan.prefetch.get(), events).await;
            progress.step();
            took
        },
    )
    .await?;
    Ok(vec![Figure::of_rates("consume", "events/s", events, &ours, &ceiling)])
}

async fn ready(ground: &Ground, plan: &Plan) -> Result<(), Failure> {
    ground.clear().await?;
    let app = ground.app(&Tap::default(), None)?;
    fill::events(&app, plan.events, Backlog::Paid).await?;
    drain::ours(ground, plan.events, plan.batch).await?;
    ground.analyze().await
}

async fn ours(ground: &Ground, plan: &Plan) -> Result<Took, Failure> {
    let tap = Tap::default();
    let app = ground.app(&tap, None)?;
    let subscriber = Subscriber { queue: FULFILLMENT_QUEUE, handler: Arc::new(Fulfillment::new(app.clone())) };
    let settings = Arc::new(ConsumerSettings { prefetch: plan.prefetch, ..ConsumerSettings::default() });
    let running = app.tx.tasks.spawn(Consumer::new(app.clone(), subscriber, settings).run());
    tap.acked(u64::from(plan.events)).await;
    let ended = Instant::now();
    app.tx.tasks.stop().await;
    drop(running);
    let all = ended - tap.subscribed().unwrap_or(ended);
    let (_, wait, ack) = tap.broker_time();
    let apply = all.saturating_sub(wait).saturating_sub(ack);
    Ok(Took { all, steps: vec![("wait", wait), ("apply", apply), ("ack", ack)] })
}
