//! `held`: drain, consume and chain beside a transaction that someone else leaves open. On servers it keeps every older version
//! of a row alive, on SQLite the write-ahead log. The baseline is the service without it.

use handover_runtime::terminal::progress::Progress;

use crate::baseline::Connection;
use crate::chain::{self, Buyers};
use crate::cli::Mode;
use crate::error::{BenchError, baseline_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::report::{Better, Figure};
use crate::series::alternate;
use crate::{consume, drain};

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("held", 3 * plan.turns());
    let buyers = Buyers::new()?;
    let (events, orders) = (plan.events, chain::orders_of(plan));
    let drained = beside(plan, progress, async |hold| {
        drain::prepare(fixture, events).await?;
        let _held = hold.begin(fixture).await?;
        drain::drain(fixture, events, plan.batch).await
    });
    let drained = drained.await?;
    let consumed = beside(plan, progress, async |hold| {
        consume::prepare(fixture, plan).await?;
        let _held = hold.begin(fixture).await?;
        consume::consume(fixture, plan).await
    });
    let consumed = consumed.await?;
    let chained = beside(plan, progress, async |hold| {
        chain::prepare(fixture, orders).await?;
        let _held = hold.begin(fixture).await?;
        chain::run_service(fixture, &buyers, orders).await
    });
    let chained = chained.await?;
    Ok([("drain", drained), ("consume", consumed), ("chain", chained)]
        .into_iter()
        .map(|(what, (held, clean))| {
            let unit = if what == "chain" { "orders/s" } else { drain::UNIT.0 };
            let mut figure = Figure::new(Mode::Held, what, (unit, Better::More), rates(&held), rates(&clean));
            figure.steps = steps(&held);
            figure.baseline_steps = steps(&clean);
            figure
        })
        .collect())
}

/// Whether a transaction is open during a turn.
#[derive(Clone, Copy)]
enum Hold {
    Open,
    None,
}

impl Hold {
    /// The transaction ends when its connection is dropped.
    async fn begin(self, fixture: &Fixture) -> Result<Option<Connection>, BenchError> {
        match self {
            Hold::None => Ok(None),
            Hold::Open => {
                let mut connection = fixture.connection().await?;
                connection.hold().await.map_err(baseline_error("cannot hold a transaction open"))?;
                Ok(Some(connection))
            }
        }
    }
}

/// Turns beside an open transaction, and turns without one.
async fn beside(
    plan: &Plan,
    progress: &Progress,
    turn: impl AsyncFn(Hold) -> Result<Measurement, BenchError>,
) -> Result<(Vec<Measurement>, Vec<Measurement>), BenchError> {
    let rounds =
        alternate(plan.rounds, progress, async || turn(Hold::Open).await, async || turn(Hold::None).await)
            .await?;
    Ok((rounds.service, rounds.baseline))
}
