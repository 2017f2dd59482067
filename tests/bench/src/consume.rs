//! `consume`: processes a backlog of a queue until every message is applied and acked. The effect of a message is the
//! shipment task of a paid order.

use std::sync::Arc;

use handover_outbox::ConsumerSettings;
use handover_outbox::consumers::Consumer;
use handover_runtime::terminal::progress::Progress;
use marketplace::consumers::FULFILLMENT_QUEUE;
use tokio::time::Instant;

use crate::backlog::{self, Backlog};
use crate::cli::Mode;
use crate::error::{BenchError, service_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::Figure;
use crate::series::alternate;
use crate::{baseline_turns, drain};

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("consume", plan.turns());
    let rounds = alternate(
        plan.rounds,
        progress,
        async || {
            prepare(fixture, plan).await?;
            consume(fixture, plan).await
        },
        async || {
            prepare(fixture, plan).await?;
            let prefetch = plan.prefetch.get();
            baseline_turns::consume(fixture, FULFILLMENT_QUEUE, prefetch, u64::from(plan.events)).await
        },
    )
    .await?;
    let what = format!("{} events", plan.events);
    let mut figure =
        Figure::new(Mode::Consume, what, drain::UNIT, rates(&rounds.service), rates(&rounds.baseline));
    figure.steps = steps(&rounds.service);
    figure.baseline_steps = steps(&rounds.baseline);
    Ok(vec![figure])
}

/// Fills the queue through the outbox, because the consumer of the service compares each message with its outbox row.
pub(crate) async fn prepare(fixture: &Fixture, plan: &Plan) -> Result<(), BenchError> {
    fixture.clear().await?;
    fill(fixture, plan).await
}

/// Adds a backlog to the queue.
pub(crate) async fn fill(fixture: &Fixture, plan: &Plan) -> Result<(), BenchError> {
    backlog::append(&fixture.app(&PortRecorder::default(), None), plan.events, Backlog::Paid).await?;
    drain::drain(fixture, plan.events, plan.batch).await?;
    fixture.analyze().await
}

pub(crate) async fn consume(fixture: &Fixture, plan: &Plan) -> Result<Measurement, BenchError> {
    let recorder = PortRecorder::default();
    let app = fixture.app(&recorder, None);
    let subscribers = app.subscribers();
    let fulfillment = subscribers.iter().find(|subscriber| subscriber.queue == FULFILLMENT_QUEUE);
    let fulfillment =
        fulfillment.ok_or_else(|| service_error("the service has no consumer of shipment tasks"))?;
    let bound = fulfillment.bind(app.tx.store());
    let settings = ConsumerSettings { prefetch: plan.prefetch, ..fixture.config.settings.consumer.clone() };
    fixture.statements.reset();
    let consumer = Consumer::new(app.outbox.clone(), bound, Arc::new(settings));
    let consumer = app.tx.spawn(consumer.run());
    recorder.wait_for_acks(u64::from(plan.events)).await;
    let finished = Instant::now();
    let statements = fixture.statements.take();
    app.tx.tasks().stop().await;
    drop(consumer);
    let started = recorder.subscribed().unwrap_or(finished);
    let broker_time = recorder.broker_time();
    Ok(Measurement::new(u64::from(plan.events), finished - started)
        .with_statements(statements)
        .with_step("wait", broker_time.waiting)
        .with_step("ack", broker_time.acking))
}
