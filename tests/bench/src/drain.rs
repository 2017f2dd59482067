//! `drain`: publishes a backlog of the outbox until every event is confirmed and its row is SENT.

use std::num::NonZeroU32;

use handover_outbox::RelaySettings;
use handover_outbox::ports::RelayId;
use handover_outbox::relay::Relay;
use handover_runtime::terminal::progress::Progress;
use tokio::time::{Duration, Instant};

use crate::backlog::{self, Backlog};
use crate::cli::Mode;
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::{Better, Figure};
use crate::series::alternate;
use crate::{baseline_turns, memory};

pub(crate) const UNIT: (&str, Better) = ("events/s", Better::More);
/// Interval at which the outbox is polled until the rows of the last window are SENT.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("drain", plan.turns());
    let rounds = alternate(
        plan.rounds,
        progress,
        async || {
            prepare(fixture, plan.events).await?;
            drain(fixture, plan.events, plan.batch).await
        },
        async || {
            let mut best = None;
            for relays in 1..=fixture.connections().min(2) {
                prepare(fixture, plan.events).await?;
                let drained = baseline_turns::drain(fixture, plan.batch.get(), relays).await?;
                best = Some(drained.or_faster(best));
            }
            best.ok_or_else(|| service_error("no connection to the database"))
        },
    )
    .await?;
    let what = format!("{} events", plan.events);
    let mut figure = Figure::new(Mode::Drain, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
    figure.memory = memory::greatest(rounds.service.iter().filter_map(|measurement| measurement.memory));
    figure.steps = steps(&rounds.service);
    figure.baseline_steps = steps(&rounds.baseline);
    Ok(vec![figure])
}

pub(crate) async fn prepare(fixture: &Fixture, events: u32) -> Result<(), BenchError> {
    fixture.clear().await?;
    backlog::append(&fixture.app(&PortRecorder::default(), None), events, Backlog::Placed).await?;
    fixture.analyze().await
}

/// Drains the outbox with the relay of the service. The measured time starts with the relay's first query for events:
/// before this query, the relay acquires its partitions.
pub(crate) async fn drain(
    fixture: &Fixture,
    events: u32,
    batch: NonZeroU32,
) -> Result<Measurement, BenchError> {
    let recorder = PortRecorder::default();
    let app = fixture.app(&recorder, None);
    let settings = RelaySettings { batch, ..fixture.config.settings.relay.clone() };
    let id = RelayId::new(app.tx.random().next(), app.outbox.topology());
    let mut connection = fixture.connection().await?;
    let memory_before = memory::start();
    fixture.statements.reset();
    let relay = Relay::new(app.outbox.clone(), fixture.wake.clone(), id, settings);
    let relay = app.tx.spawn(relay.run());
    recorder.wait_for_confirms(u64::from(events)).await;
    while connection.has_pending().await.map_err(baseline_error("cannot read the outbox"))? {
        app.tx.sleep(POLL_INTERVAL).await;
    }
    let finished = Instant::now();
    let statements = fixture.statements.take();
    let memory = memory::finish(memory_before);
    app.tx.tasks().stop().await;
    drop(relay);
    let started = recorder.first_view().unwrap_or(finished);
    Ok(Measurement::new(u64::from(events), finished - started)
        .with_statements(statements)
        .with_step("publish", recorder.broker_time().publishing)
        .with_memory(memory))
}
