//! `drain` with ever more sent rows in the table. The ceiling is the same drain with an empty one, which takes its place
//! by turns; on SQLite the empty one comes first.

use handover_bare::Session;

use super::drain::{self, UNIT};
use super::fill::{self, Backlog, NUMBERS};
use super::ground::{Ground, Kind};
use super::measure::{Plan, by_turns};
use super::report::Figure;
use super::stop::failed;
use super::tap::Tap;
use super::took::{Took, rates, steps};
use crate::Failure;
use crate::cli::BenchMode;
use crate::progress::Progress;

pub(super) async fn measure(
    plan: &Plan,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    ground.clear().await?;
    let mut session = ground.session().await?;
    let (mut figures, mut there) = (Vec::new(), 0);
    let mut all = plan.rows.clone();
    all.sort_unstable();
    for rows in all {
        let empty_first = match ground.kind() {
            Kind::Sqlite => {
                ground.clear().await?;
                there = 0;
                drains(plan, ground, progress).await?
            }
            Kind::MySql | Kind::Postgres => Vec::new(),
        };
        progress.phase("growth: sent rows", chunks(rows - there));
        sent_rows(ground, &mut session, there, rows, progress).await?;
        there = rows;
        progress.phase("growth", plan.turns());
        let (full, empty) = match ground.kind() {
            Kind::Sqlite => (drains(plan, ground, progress).await?, empty_first),
            kind @ (Kind::MySql | Kind::Postgres) => {
                kind.make_other_outbox(&mut session).await?;
                let turns = by_turns(
                    plan.rounds,
                    progress,
                    async || one(ground, plan).await,
                    async || beside(ground, plan).await,
                )
                .await?;
                kind.drop_other_outbox(&mut session).await?;
                turns
            }
        };
        let what = format!("{rows} sent rows");
        let mut figure = Figure::new(BenchMode::Growth, what, UNIT, rates(&full), rates(&empty));
        (figure.steps, figure.ceiling_steps) = (steps(&full), steps(&empty));
        figures.push(figure);
    }
    Ok(figures)
}

fn chunks(rows: u64) -> usize {
    usize::try_from(rows.div_ceil(u64::from(NUMBERS))).unwrap_or(usize::MAX)
}

/// Lets the database write the rows from `there` to `rows`, sent long ago.
async fn sent_rows(
    ground: &Ground,
    session: &mut Session,
    there: u64,
    rows: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut first = there;
    while first < rows {
        let at = ground.kind().long_ago(u32::try_from(first / u64::from(NUMBERS)).unwrap_or(0));
        let sql = format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, \
             create_time, update_time, tenant_id, aggregate_seq, metadata, sent_time) \
             SELECT concat('01930000-0000-7000-8000-', 100000000000 + {first} + n), 'ORDER_CREATED', 'Order', \
             1000000000 + {first} + n, concat('{{\"orderId\":', 1000000000 + {first} + n, \
             ',\"orderNo\":\"202601010000000000000000\",\"buyerId\":1000001,\"sellerId\":2,\"totalAmount\":88.50,\
             \"productId\":1,\"quantity\":1,\"price\":88.50}}'), 'SENT', {at}, {at}, 1, 1, \
             '{{\"traceId\":\"bench-0000000000000000\",\"userId\":1000001}}', {at} FROM {} WHERE {first} + n < {rows}",
            fill::numbers(),
        );
        session.execute(&sql).await.map_err(failed("the sent rows cannot be written"))?;
        first = rows.min(first + u64::from(NUMBERS));
        progress.step();
    }
    ground.settle().await
}

/// A drain of what is appended to the table as it is.
async fn one(ground: &Ground, plan: &Plan) -> Result<Took, Failure> {
    ground.clear_queues().await?;
    fill::events(&ground.app(&Tap::default(), None), plan.events, Backlog::Placed).await?;
    ground.settle().await?;
    drain::ours(ground, plan.events, plan.batch).await
}

/// The same in the empty copy.
async fn beside(ground: &Ground, plan: &Plan) -> Result<Took, Failure> {
    let (kind, mut session) = (ground.kind(), ground.session().await?);
    kind.swap_outboxes(&mut session).await?;
    let cleared = session.execute("TRUNCATE TABLE outbox_events").await;
    cleared.map_err(failed("the copy of the outbox cannot be emptied"))?;
    let took = one(ground, plan).await?;
    kind.swap_outboxes(&mut session).await?;
    Ok(took)
}

async fn drains(plan: &Plan, ground: &Ground, progress: &Progress) -> Result<Vec<Took>, Failure> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(one(ground, plan).await?);
        progress.step();
    }
    Ok(rounds)
}
