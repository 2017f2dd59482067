//! `enqueue`: transactions of a service that changes a row and enqueues an event through the crate `handover`. The baseline inserts
//! the same row of the outbox by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use handover::{Event, Outbox};
use handover_outbox::ports::Clock as _;
use handover_runtime::terminal::progress::Progress;
use handover_system::SystemClock;
use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use sqlx::pool::PoolOptions;
use tokio::time::Instant;

use crate::baseline::{Appended, Driver};
use crate::cli::Mode;
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::report::{Better, Figure};
use crate::series::alternate;

const UNIT: (&str, Better) = ("transactions/s", Better::More);
/// Number of products; a turn ends early when each has an event.
const PRODUCTS: u32 = 20_000;

type Steps = Vec<(&'static str, Duration)>;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "product.changed", aggregate = "product")]
struct ProductChanged {
    #[event(key)]
    product: i64,
    title: String,
}

impl ProductChanged {
    fn of(product: i64) -> ProductChanged {
        ProductChanged { product, title: "desk lamp, hardly used".to_owned() }
    }
}

/// The aggregates of the events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregates {
    New,
    One,
}

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("enqueue", 2 * plan.turns());
    let mut figures = Vec::new();
    for (what, aggregates) in [("new aggregates", Aggregates::New), ("one aggregate", Aggregates::One)] {
        let rounds = alternate(
            plan.rounds,
            progress,
            async || service(fixture, aggregates, plan.orders_turn).await,
            async || baseline(fixture, aggregates, plan.orders_turn).await,
        )
        .await?;
        let mut figure =
            Figure::new(Mode::Enqueue, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
        figure.steps = steps(&rounds.service);
        figure.baseline_steps = steps(&rounds.baseline);
        figures.push(figure);
    }
    Ok(figures)
}

async fn prepare(fixture: &Fixture) -> Result<(), BenchError> {
    fixture.clear().await?;
    fixture.list_products(PRODUCTS).await?;
    fixture.analyze().await
}

/// Runs transactions, each with its number, one after the other.
async fn run(
    lasts: Duration,
    aggregates: Aggregates,
    mut transaction: impl AsyncFnMut(i64, i64) -> Result<Steps, BenchError>,
) -> Result<Measurement, BenchError> {
    let mut times = BTreeMap::<_, Duration>::new();
    let mut done = 0;
    let started = Instant::now();
    while started.elapsed() < lasts && done < PRODUCTS {
        let number = i64::from(done) + 1;
        let (product, seq) = match aggregates {
            Aggregates::New => (number, 1),
            Aggregates::One => (1, number),
        };
        for (step, time) in transaction(product, seq).await? {
            *times.entry(step).or_default() += time;
        }
        done += 1;
    }
    Ok(Measurement::new(u64::from(done), started.elapsed()).with_steps(times))
}

async fn baseline(
    fixture: &Fixture,
    aggregates: Aggregates,
    lasts: Duration,
) -> Result<Measurement, BenchError> {
    prepare(fixture).await?;
    let mut connection = fixture.connection().await?;
    run(lasts, aggregates, async |product, seq| {
        let payload = serde_json::to_string(&ProductChanged::of(product)).map_err(service_error)?;
        let event_id = format!("bench-{product}-{seq}");
        let event = Appended { product_id: product, seq, event_id, payload, at: SystemClock.now() };
        connection.append(&event).await.map_err(baseline_error("an event of the baseline"))
    })
    .await
}

async fn service(
    fixture: &Fixture,
    aggregates: Aggregates,
    lasts: Duration,
) -> Result<Measurement, BenchError> {
    prepare(fixture).await?;
    let url = fixture.database_url();
    let mut connection = fixture.connection().await?;
    match connection.driver() {
        Driver::Sqlite(connection) => sqlite::run(connection, url, aggregates, lasts).await,
        Driver::Postgres(connection) => postgres::run(connection, url, aggregates, lasts).await,
        Driver::MySql(connection) => mysql::run(connection, url, aggregates, lasts).await,
    }
}

macro_rules! engine {
    ($name:ident, $engine:ty, $value:literal) => {
        mod $name {
            use super::*;

            /// The pool is not used: the events are enqueued on this connection.
            pub(super) async fn run(
                connection: &mut <$engine as sqlx::Database>::Connection,
                url: &str,
                aggregates: Aggregates,
                lasts: Duration,
            ) -> Result<Measurement, BenchError> {
                let pool = PoolOptions::<$engine>::new().connect_lazy(url).map_err(service_error)?;
                let outbox =
                    Outbox::builder(pool).event::<ProductChanged>().build().map_err(service_error)?;
                super::run(lasts, aggregates, async |product, _| {
                    let mut at = Instant::now();
                    let mut lap = || std::mem::replace(&mut at, Instant::now()).elapsed();
                    let mut tx = connection.begin().await.map_err(service_error)?;
                    let beginning = lap();
                    let update = concat!("UPDATE products SET version = version + 1 WHERE id = ", $value);
                    let updated = sqlx::query(update).bind(product).execute(&mut *tx).await;
                    updated.map_err(service_error)?;
                    let updating = lap();
                    outbox.enqueue(&mut tx, ProductChanged::of(product)).await.map_err(service_error)?;
                    let enqueuing = lap();
                    tx.commit().await.map_err(service_error)?;
                    Ok(vec![
                        ("begin", beginning),
                        ("change products", updating),
                        ("enqueue", enqueuing),
                        ("commit", lap()),
                    ])
                })
                .await
            }
        }
    };
}

engine!(sqlite, sqlx::Sqlite, "?");
engine!(postgres, sqlx::Postgres, "$1");
engine!(mysql, sqlx::MySql, "?");
