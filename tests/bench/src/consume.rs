//! A backlog of a queue until every message is applied and acked: shipment tasks of paid orders.

use std::sync::Arc;

use handover_application::ConsumerSettings;
use handover_application::consumers::{Consumer, Fulfillment, Subscriber};
use handover_application::topology::FULFILLMENT_QUEUE;
use tokio::time::Instant;

use super::backlog::{self, Backlog};
use super::fixture::Ground;
use super::measurement::{Took, rates, steps};
use super::port_recorder::Tap;
use super::report::Figure;
use super::series::{Plan, by_turns};
use super::{baseline, drain};
use crate::cli::BenchMode;
use handover::Failure;
use handover::progress::Progress;

pub(super) async fn measure(
    plan: &Plan,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    progress.phase("consume", plan.turns());
    let (ours, ceiling) = by_turns(
        plan.rounds,
        progress,
        async || {
            ready(ground, plan).await?;
            ours(ground, plan).await
        },
        async || {
            ready(ground, plan).await?;
            baseline::consume(ground, FULFILLMENT_QUEUE, plan.prefetch.get(), u64::from(plan.events)).await
        },
    )
    .await?;
    let what = format!("{} events", plan.events);
    let mut figure = Figure::new(BenchMode::Consume, what, drain::UNIT, rates(&ours), rates(&ceiling));
    (figure.steps, figure.ceiling_steps) = (steps(&ours), steps(&ceiling));
    Ok(vec![figure])
}

/// The service itself fills the queue: the consumer asks the outbox about each message.
async fn ready(ground: &Ground, plan: &Plan) -> Result<(), Failure> {
    ground.clear().await?;
    backlog::events(&ground.app(&Tap::default(), None), plan.events, Backlog::Paid).await?;
    drain::ours(ground, plan.events, plan.batch).await?;
    ground.settle().await
}

async fn ours(ground: &Ground, plan: &Plan) -> Result<Took, Failure> {
    let tap = Tap::default();
    let app = ground.app(&tap, None);
    let handler = Arc::new(Fulfillment::new(app.clone()));
    let subscriber = Subscriber { queue: FULFILLMENT_QUEUE, handler };
    let settings = ConsumerSettings { prefetch: plan.prefetch, ..ground.config.settings.consumer.clone() };
    drop(ground.statements.take());
    let consumer = Consumer::new(app.clone(), subscriber, Arc::new(settings));
    let consumer = app.tx.tasks.spawn(consumer.run());
    tap.acked(u64::from(plan.events)).await;
    let ended = Instant::now();
    let spent = ground.statements.take();
    app.tx.tasks.stop().await;
    drop(consumer);
    let took = Took::new(u64::from(plan.events), ended - tap.subscribed().unwrap_or(ended));
    let (_, wait, ack) = tap.broker_time();
    Ok(took.with_statements(spent).with("wait", wait).with("ack", ack))
}
