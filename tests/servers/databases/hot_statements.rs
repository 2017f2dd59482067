//! The statements that run all the time: each finds its rows by the index that was made for it and reads few rows for
//! each that it returns, whatever the table held when the server planned it. The plans are those of the statements
//! as the store runs them: PostgreSQL logs them (`auto_explain`), MariaDB counts what was read by which index.

mod cases;
mod fill;
mod reads;

use std::num::NonZeroU32;
use std::sync::Arc;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::Wake;
use handover_sql::{ServerOptions, SqlStore};
use handover_tests::server_rigs::migrated;
use handover_tests::servers::database::{ServerKind, TestDatabase};
use marketplace_sql::SqlMarket;

use super::on_every_server;
use cases::{CASES, Case};
use reads::Reads;

on_every_server!(hot_statements_read_by_their_index_what_they_return);

#[test]
#[ignore = "long: tables of 300,000 rows"]
fn hot_statements_read_no_more_of_large_tables() {
    handover_contract::run(async {
        for kind in [ServerKind::MariaDb, ServerKind::Postgres] {
            check(kind, 300_000).await;
        }
    });
}

/// Rows that a statement may read for each that it returns, and in any case.
const PER_ROW: usize = 20;
const ANYWAY: usize = 300;

async fn hot_statements_read_by_their_index_what_they_return(kind: ServerKind) {
    check(kind, 20_000).await;
}

/// A store with one connection, so that all statements are prepared on the same.
fn store(database: &TestDatabase) -> SqlMarket {
    let options = ServerOptions::parse(&database.url()).expect("the URL is one");
    let clock = Arc::new(ManualClock::new(start()));
    SqlMarket::on(SqlStore::open_server(&options.connections(NonZeroU32::MIN), clock, Wake::default()))
}

async fn check(kind: ServerKind, rows: u32) {
    let database = migrated(kind).await;
    let mut reads = Reads::of(&database).await;
    fill::keep_statistics(&database).await;
    // Statements that were prepared while tables were empty or small, each on a connection that goes on.
    let mut early = vec![(store(&database), "planned while empty".to_owned())];
    run_all(&early[0].0, &mut reads, "empty").await;
    fill::live(&early[0].0).await;
    let mut filled = 0;
    for small in [100, 1_000, 5_000] {
        fill::settled(&database, filled, small).await;
        filled = small;
        let store = store(&database);
        run_all(&store, &mut reads, &format!("of {small} rows")).await;
        early.push((store, format!("planned for {small} rows")));
    }
    fill::settled(&database, filled, rows).await;
    for (store, state) in early {
        run_all(&store, &mut reads, &state).await;
        store.close().await;
    }
    let planned_fresh = store(&database);
    run_all(&planned_fresh, &mut reads, "without statistics").await;
    planned_fresh.close().await;
    fill::analyze(&database).await;
    let planned_full = store(&database);
    run_all(&planned_full, &mut reads, "with statistics").await;
    planned_full.close().await;
}

async fn run_all(store: &SqlMarket, reads: &mut Reads, state: &str) {
    let mut wrong = Vec::new();
    for case in CASES {
        wrong.extend(run(store, reads, state, case).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a statement until its plan is kept; tells what is wrong with what it read the last time.
async fn run(store: &SqlMarket, reads: &mut Reads, state: &str, case: &Case) -> Vec<String> {
    for _ in 1..reads.runs_until_a_plan_is_kept() {
        (case.run)(store).await;
    }
    reads.forget().await;
    let returned = (case.run)(store).await;
    let read = reads.since().await;
    let rows: usize = read.iter().map(|read| read.rows).sum();
    let most = ANYWAY + PER_ROW * returned;
    let mut wrong: Vec<String> = read
        .iter()
        .filter(|read| !case.indexes.contains(&read.index.as_str()) && !reads.sorted(read))
        .map(|read| format!("{state}: {} reads {} by {}", case.name, read.table, read.index))
        .collect();
    if rows > most {
        wrong.push(format!("{state}: {} reads {rows} rows and returns {returned}: {read:?}", case.name));
    }
    wrong
}
