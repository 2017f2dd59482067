//! A process of an older version works beside one of this version while the schema is migrated. `HANDOVER_OLD_BIN` is the
//! program of the first schema version, `HANDOVER_PREVIOUS_BIN` that of the schema version before this one, if programs of that
//! version need not be stopped before the migration. `tests/run` builds both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover::{EnqueueError, Event, Outbox};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance_except};
use handover_tests::process::{Launch, Server};
use handover_tests::random::RandomSource;
use handover_tests::servers::database::ServerKind;
use handover_tests::snapshot::DatabaseSnapshot;
use handover_tests::{rabbit_rigs, server_rigs};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{WITHIN, assert_progress, eventually, with_short_timeouts};

handover_tests::on_pairs!([program_of_previous_schema_works_and_starts_on_this_schema]:
    #[ignore = "needs the program of the previous schema"] sqlite_and_database SqliteAlone,
    #[ignore = "needs the program of the previous schema"] mariadb_from_previous MariaDbAlone,
    #[ignore = "needs the program of the previous schema"] postgres_from_previous PostgresRabbitMq);

handover_tests::on_pairs!([process_of_older_version_works_during_and_after_migration]:
    #[ignore = "long: needs the program of an older version"] postgres_and_database PostgresAlone,
    #[ignore = "long: needs the program of an older version"] mariadb_and_database MariaDbAlone,
    #[ignore = "long: needs the program of an older version"] postgres_and_rabbitmq PostgresRabbitMq);

/// Pause of a client between its orders.
const PAUSE: Duration = Duration::from_millis(20);

/// Invariants and findings about the rows in `payment_captures`, which processes of a version before that table do not write.
const WITH_CAPTURES: [&str; 4] = [
    "a successful payment was not captured exactly once",
    "a refund does not match a successful payment",
    "the gateway account does not match",
    "notReported",
];

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: Uuid,
}

async fn process_of_older_version_works_during_and_after_migration(pair: Pair) {
    let deployment = empty(pair).await;
    let older = first_version(&deployment);
    older.migrate();
    let old_server = older.start().unwrap();
    let old_api = Api::of(&old_server);
    let snapshot = deployment.snapshot().await;
    let ledger = Arc::new(Ledger::default());
    let random = RandomSource::of_test("upgrade");
    let load = Load::start(std::slice::from_ref(&old_api), &ledger, &random, 4, PAUSE).await;
    assert_progress(&old_api, &snapshot, &ledger).await;

    let newer = with_short_timeouts(deployment.launch());
    let migrated = newer.clone();
    let begun = Instant::now();
    tokio::task::spawn_blocking(move || migrated.migrate()).await.unwrap();
    println!("{pair:?}: migrated in {:.1?}", begun.elapsed());
    assert_progress(&old_api, &snapshot, &ledger).await;
    let new_server = newer.start().unwrap();
    let new_api = old_api.for_server(&new_server);
    load.stop().await;
    let load = Load::start(&[old_api.clone(), new_api.clone()], &ledger, &random, 4, PAUSE).await;
    for _ in 0..3 {
        ledger.wait_for_orders(50).await;
        assert_progress(&old_api, &snapshot, &ledger).await;
        assert_progress(&new_api, &snapshot, &ledger).await;
        let refused = enqueue_text_key(pair, &deployment.database().url()).await;
        assert!(matches!(refused, Err(EnqueueError::OlderProcess { .. })), "{refused:?}");
    }
    println!("  both versions work: {}", ledger.summary());
    let (status, took) = old_server.terminate(WITHIN).unwrap();
    assert!(status.success(), "{status}");
    println!("  the process of the older version stopped in {took:.1?}");
    let begun = Instant::now();
    eventually(WITHIN, async || Ok(enqueue_text_key(pair, &deployment.database().url()).await?)).await;
    println!("  text keys are accepted {:.1?} later", begun.elapsed());
    ledger.wait_for_orders(50).await;
    load.stop().await;
    check(&new_api, &snapshot, &ledger).await;
    assert_without_errors(&older.log());
}

/// The program has logged no errors, apart from refunds that the sandbox gateway refuses: those of amounts that end in .13.
fn assert_without_errors(log: &str) {
    let is_error = |line: &&str| line.contains("\"level\":\"ERROR\"") && !line.contains("refund.failed");
    let errors: Vec<&str> = log.lines().filter(is_error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Launch options of a process of the first schema version.
fn first_version(deployment: &Deployment) -> Launch {
    with_short_timeouts(deployment.launch())
        .program(&program("HANDOVER_OLD_BIN"))
        .without("HANDOVER_CONSISTENCY__RECENT_INTERVAL")
}

/// One process uses a file, so there is no process of the older version beside one of this version.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: needs the program of an older version"]
async fn file_of_older_version_is_migrated_by_start_after_kill() {
    let deployment = Deployment::unmigrated(Pair::SqliteAlone, None, None);
    let old_server = first_version(&deployment).start().unwrap();
    let api = Api::of(&old_server);
    let snapshot = deployment.snapshot().await;
    let ledger = Arc::new(Ledger::default());
    let random = RandomSource::of_test("upgrade of a file");
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 4, PAUSE).await;
    ledger.wait_for_orders(50).await;
    old_server.kill().unwrap();
    let new_server = with_short_timeouts(deployment.launch()).start().unwrap();
    api.set_server(&new_server);
    ledger.wait_for_orders(50).await;
    load.stop().await;
    check(&api, &snapshot, &ledger).await;
}

/// A file is migrated between two processes, because only one process uses it.
async fn program_of_previous_schema_works_and_starts_on_this_schema(pair: Pair) {
    let deployment = empty(pair).await;
    let previous = with_short_timeouts(deployment.launch()).program(&program("HANDOVER_PREVIOUS_BIN"));
    previous.migrate();
    let mut old_server = Some(previous.start().unwrap());
    let api = Api::of(old_server.as_ref().unwrap());
    let snapshot = deployment.snapshot().await;
    let versions = "SELECT (SELECT max(version) FROM outbox_migrations) + (SELECT max(version) FROM marketplace_migrations)";
    let before = snapshot.number(versions).await;
    let ledger = Arc::new(Ledger::default());
    let random = RandomSource::of_test("upgrade from the previous schema");
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 4, PAUSE).await;
    assert_progress(&api, &snapshot, &ledger).await;

    let stop = |server: Option<Server>| server.map(|server| server.terminate(WITHIN).unwrap().0);
    if pair.database_server().is_none() {
        stop(old_server.take());
    }
    let newer = with_short_timeouts(deployment.launch());
    let migrated = newer.clone();
    tokio::task::spawn_blocking(move || migrated.migrate()).await.unwrap();
    let after = snapshot.number(versions).await;
    assert!(after > before, "the schema of the previous program has the version of this one: {after}");
    if old_server.is_some() {
        assert_progress(&api, &snapshot, &ledger).await;
        assert!(stop(old_server).unwrap().success());
    }
    let old_server = previous.start().unwrap();
    api.set_server(&old_server);
    assert_progress(&api, &snapshot, &ledger).await;
    ledger.wait_for_orders(50).await;
    println!("{pair:?}: the program of the previous schema works on {after}: {}", ledger.summary());
    assert!(stop(Some(old_server)).unwrap().success());

    let new_server = newer.start().unwrap();
    api.set_server(&new_server);
    assert_progress(&api, &snapshot, &ledger).await;
    load.stop().await;
    check(&api, &snapshot, &ledger).await;
    assert_without_errors(&previous.log());
}

/// A deployment whose database has no tables.
async fn empty(pair: Pair) -> Deployment {
    let database = match pair.database_server() {
        Some(kind) => Some(server_rigs::shared(kind).await.database(None).await.unwrap()),
        None => None,
    };
    let vhost = match pair.is_on_rabbitmq() {
        true => Some(Arc::new(rabbit_rigs::shared().await.vhost().await.unwrap())),
        false => None,
    };
    Deployment::unmigrated(pair, database, vhost)
}

/// The program that this variable names.
fn program(variable: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set")))
}

/// Waits until all work is finished. Then every event was sent, and every consumer has applied it.
async fn check(api: &Api, snapshot: &DatabaseSnapshot, ledger: &Ledger) {
    balance_except(api, snapshot, ledger, &WITH_CAPTURES).await;
    let not_sent = "SELECT count(*) FROM outbox_events WHERE status <> 'SENT'";
    assert_eq!(snapshot.number(not_sent).await, 0);
    let not_applied = "SELECT count(*) FROM event_consume_log WHERE status <> 'SUCCESS'";
    assert_eq!(snapshot.number(not_applied).await, 0);
    assert_eq!(snapshot.number("SELECT count(*) FROM dead_letters").await, 0);
}

/// Inserts an event with a text key in a transaction that is rolled back.
async fn enqueue_text_key(pair: Pair, url: &str) -> Result<(), EnqueueError> {
    let lent = BookLent { book: Uuid::from_u128(7) };
    macro_rules! enqueue {
        ($pool:expr) => {{
            let pool = $pool;
            let outbox = Outbox::builder(pool.clone()).event::<BookLent>().build().unwrap();
            let mut tx = pool.begin().await.unwrap();
            let enqueued = outbox.enqueue(&mut tx, lent).await;
            tx.rollback().await.unwrap();
            enqueued.map(drop)
        }};
    }
    match pair.database_server() {
        Some(ServerKind::MariaDb) => {
            enqueue!(sqlx::MySqlPool::connect(url).await.unwrap())
        }
        _ => enqueue!(sqlx::PgPool::connect(url).await.unwrap()),
    }
}
