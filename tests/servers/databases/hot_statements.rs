//! Frequent statements: each uses its index and reads few rows per returned row, whatever the table contained when the
//! server planned the statement. The test measures the statements as the store runs them: PostgreSQL logs their plans
//! (`auto_explain`), MariaDB counts the rows read by each index.

mod cases;
mod fill;
mod reads;

use std::num::NonZeroU32;
use std::sync::Arc;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_sql::{ServerOptions, SqlStore};
use handover_tests::server_rigs::migrated;
use handover_tests::servers::database::{ServerKind, TestDatabase};
use marketplace_sql::SqlMarket;

use super::on_every_server;
use cases::{CASES, Case};
use reads::Reads;

on_every_server!(hot_statements_use_their_index);

#[test]
#[ignore = "long: tables of 300,000 rows"]
fn hot_statements_read_few_rows_of_large_tables() {
    handover_contract::run(async {
        for kind in [ServerKind::MariaDb, ServerKind::Postgres] {
            check(kind, 300_000).await;
        }
    });
}

/// A statement may read `READS_PER_ROW` rows per returned row, and `EXTRA_READS` rows in addition.
const READS_PER_ROW: usize = 20;
const EXTRA_READS: usize = 300;

async fn hot_statements_use_their_index(kind: ServerKind) {
    check(kind, 20_000).await;
}

/// A store with one connection, so that all statements are prepared on it.
fn store(database: &TestDatabase) -> SqlMarket {
    let options = ServerOptions::parse(&database.url()).expect("a valid URL");
    let clock = Arc::new(ManualClock::new(start()));
    SqlMarket::on(SqlStore::open_server(
        &options.connections(NonZeroU32::MIN),
        clock,
        WakeupNotifier::default(),
    ))
}

async fn check(kind: ServerKind, rows: u32) {
    let database = migrated(kind).await;
    let mut reads = Reads::of(&database).await;
    fill::keep_statistics(&database).await;
    // Stores whose statements were prepared while tables were empty or small. Each store keeps its connection open.
    let mut early = vec![(store(&database), "planned while empty".to_owned())];
    run_all(&early[0].0, &mut reads, "empty").await;
    fill::insert_active(&early[0].0).await;
    let mut filled = 0;
    for small in [100, 1_000, 5_000] {
        fill::insert_finished(&database, filled, small).await;
        filled = small;
        let store = store(&database);
        run_all(&store, &mut reads, &format!("of {small} rows")).await;
        early.push((store, format!("planned for {small} rows")));
    }
    fill::insert_finished(&database, filled, rows).await;
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
    let mut defects = Vec::new();
    for case in CASES.into_iter().flatten() {
        defects.extend(run(store, reads, state, case).await);
    }
    assert!(defects.is_empty(), "{}", defects.join("\n"));
}

/// Runs a statement until its plan is cached. Returns the defects of the last run.
async fn run(store: &SqlMarket, reads: &mut Reads, state: &str, case: &Case) -> Vec<String> {
    for _ in 1..reads.runs_until_plan_is_cached() {
        (case.run)(store).await;
    }
    reads.reset().await;
    let returned = (case.run)(store).await;
    let read = reads.rows_read().await;
    let rows: usize = read.iter().map(|read| read.rows).sum();
    let most = EXTRA_READS + READS_PER_ROW * returned;
    let mut defects: Vec<String> = read
        .iter()
        .filter(|read| !case.indexes.contains(&read.index.as_str()) && !reads.may_be_sorted(read))
        .map(|read| {
            format!(
                "{state}: {} reads {} by {}, which is not an allowed index",
                case.name, read.table, read.index
            )
        })
        .collect();
    if rows > most {
        defects.push(format!(
            "{state}: {} reads {rows} rows, but may read at most {most} for {returned} returned rows: {read:?}",
            case.name
        ));
    }
    defects
}
