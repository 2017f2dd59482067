//! The migration of a large outbox of the first version, while a process of that version inserts rows. `HANDOVER_SETTLED_ROWS` is the
//! number of its rows.

use std::time::{Duration, Instant};

use handover_tests::deployment::Pair;
use handover_tests::servers::Durability;
use handover_tests::servers::database::DatabaseServer;
use handover_tests::snapshot::DatabaseSnapshot;
use handover_tests::upgrade;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions as _, Connection as _, MySqlConnection, PgConnection};

use super::summary;
use crate::fresh;

handover_tests::on_pairs!([large_outbox_is_migrated_while_rows_are_inserted]:
    #[ignore = "long: measures the migration"] sqlite SqliteAlone,
    #[ignore = "long: measures the migration"] mariadb MariaDbAlone,
    #[ignore = "long: measures the migration"] postgres PostgresAlone);

/// Number of rows, unless the variable sets another.
const ROWS: u64 = 10_000_000;
const FIRST: u64 = 1_000;
const ROWS_PER_STATEMENT: u64 = 500_000;
/// Limits that a migration exceeds if it rewrites the table or builds an index of it, and no other on a slow machine.
const MIGRATED_WITHIN: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Columns that an insert of the first version sets.
const COLUMNS: &str = "event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, payload, status, create_time, \
                       update_time, sent_time";

async fn large_outbox_is_migrated_while_rows_are_inserted(pair: Pair) {
    let (_folder, mut launch) = fresh();
    let database = match pair.database_server() {
        None => None,
        Some(kind) => {
            let server = DatabaseServer::start(kind, Durability::Full).await.unwrap();
            Some(server.database(None).await.unwrap())
        }
    };
    let snapshot = match &database {
        None => {
            let options = SqliteConnectOptions::new().filename(launch.database()).create_if_missing(true);
            // The journal mode of the program.
            let mut connection = options.journal_mode(SqliteJournalMode::Wal).connect().await.unwrap();
            upgrade::migrate_to_first_version(&mut connection, "sqlite").await;
            DatabaseSnapshot::open(&launch.database()).await
        }
        Some(database) => {
            let url = database.url();
            if url.starts_with("postgres") {
                let mut connection = PgConnection::connect(&url).await.unwrap();
                upgrade::migrate_to_first_version(&mut connection, "postgres").await;
            } else {
                let mut connection = MySqlConnection::connect(&url).await.unwrap();
                upgrade::migrate_to_first_version(&mut connection, "mysql").await;
            }
            launch = launch.set("HANDOVER_DATABASE__URL", &url);
            DatabaseSnapshot::on(&url)
        }
    };
    let filled = fill(&snapshot).await;
    let migration = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        launch.migrate();
        begun.elapsed()
    });
    let mut pauses = Vec::new();
    while !migration.is_finished() {
        let begun = Instant::now();
        snapshot.change(&insert(&format!("VALUES {}", row(&format!("meanwhile-{}", pauses.len()), 1)))).await;
        pauses.push(begun.elapsed());
    }
    let took = migration.await.unwrap();
    println!("{pair:?}: {filled} rows migrated in {took:.1?}; inserts meanwhile: {}", summary(&mut pauses));
    let inserted =
        snapshot.number("SELECT count(*) FROM outbox_events WHERE event_id LIKE 'meanwhile-%'").await;
    assert_eq!(inserted, pauses.len() as i64);
    assert_eq!(snapshot.number("SELECT count(aggregate_key) FROM outbox_events").await, 0);
    assert!(took < MIGRATED_WITHIN, "{took:?}");
    assert!(pauses[pauses.len() - 1] < LONGEST_PAUSE, "{pauses:?}");
}

fn insert(values: &str) -> String {
    format!("INSERT INTO outbox_events ({COLUMNS}) {values}")
}

fn row(event_id: &str, aggregate: u64) -> String {
    const AT: &str = "'2026-02-04 10:30:00.000001'";
    let payload = format!("{{\"orderId\":{aggregate},\"note\":\"{}\"}}", "x".repeat(150));
    format!("('{event_id}', 'ORDER_CREATED', 'ORDER', {aggregate}, 1, '{payload}', 'SENT', {AT}, {AT}, {AT})")
}

/// Inserts the rows of the large outbox. Returns their number.
async fn fill(snapshot: &DatabaseSnapshot) -> i64 {
    let rows = std::env::var("HANDOVER_SETTLED_ROWS").map_or(ROWS, |rows| rows.parse().unwrap());
    let first: Vec<String> = (1..=FIRST).map(|number| row(&format!("filled-{number}"), number)).collect();
    snapshot.change(&insert(&format!("VALUES {}", first.join(", ")))).await;
    let mut filled = FIRST;
    while filled < rows {
        let more = filled.min(rows - filled).min(ROWS_PER_STATEMENT);
        let columns = COLUMNS.replacen("event_id", &format!("'copy-{filled}-' || id"), 1);
        let copied = format!("SELECT {columns} FROM outbox_events ORDER BY id LIMIT {more}");
        snapshot.change(&insert(&copied)).await;
        filled += more;
    }
    snapshot.number("SELECT count(*) FROM outbox_events").await
}
