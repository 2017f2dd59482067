//! A row that another transaction keeps locked: events that need the row wait, other events are applied. On SQLite the
//! lock applies to the whole file.

use std::time::Duration;

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use handover_tests::snapshot::DatabaseSnapshot;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};

use crate::WITHIN;

handover_tests::on_pairs!([locked_row_delays_only_events_that_need_it]:
    mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);
handover_tests::on_pairs!([sqlite_write_lock_pauses_consumers_without_counting_attempts]:
    sqlite_and_database SqliteAlone);

const SELLER: i64 = 1;
const LOCKED: i64 = 2;
/// More events than a consumer processes at a time.
const EVENTS: i64 = 25;
/// Maximum time until the events of the other buyers are applied; 10 s would suffice on an otherwise idle machine.
const OTHERS_WITHIN: Duration = Duration::from_secs(30);
const OTHERS: std::ops::RangeInclusive<i64> = 3..=12;

/// A separate transaction, which ends when the value is dropped.
enum OpenTransaction {
    MySql(#[allow(dead_code)] MySqlConnection),
    Postgres(#[allow(dead_code)] PgConnection),
}

async fn lock_rows(deployment: &Deployment, sql: &str) -> OpenTransaction {
    let url = deployment.database().url();
    let sql = [String::from("BEGIN"), sql.to_owned()];
    match deployment.database().server().kind() {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            for sql in sql {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            OpenTransaction::MySql(connection)
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            for sql in sql {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            OpenTransaction::Postgres(connection)
        }
    }
}

/// Places and cancels one order for each of these buyers.
async fn cancelled(api: &Api, buyers: impl IntoIterator<Item = i64>) {
    for buyer in buyers {
        let product = api.list_product(SELLER, "Desk lamp").await.unwrap().id("productId");
        let order = api.place_order(buyer, product).await.unwrap().id("orderId");
        api.cancel(buyer, order).await.unwrap().value();
    }
}

/// Waits until the credit consumer has recorded `count` cancellations of the buyer [`LOCKED`] (`operator` is `=`) or of
/// all other buyers (`<>`).
async fn expect_counted(snapshot: &DatabaseSnapshot, within: Duration, operator: &str, count: i64) {
    let sql = format!("SELECT count(*) FROM buyer_credit_changes WHERE buyer_id {operator} {LOCKED}");
    eventually(within, async || match snapshot.count(&sql).await? {
        found if found == count => Ok(()),
        found => Err(format!("{found} of {count} cancellations are recorded").into()),
    })
    .await;
}

/// Checks that waiting was not counted as an attempt of any event, and that there is no dead letter.
async fn assert_waiting_counted_no_attempt(snapshot: &DatabaseSnapshot) {
    let charged = "SELECT count(*) FROM event_consume_log WHERE attempts <> 1 OR status <> 'SUCCESS'";
    eventually(WITHIN, async || match snapshot.count(charged).await? {
        0 => Ok(()),
        events => Err(format!("{events} events are not applied at the first attempt").into()),
    })
    .await;
    assert_eq!(snapshot.number("SELECT count(*) FROM dead_letters").await, 0);
}

async fn locked_row_delays_only_events_that_need_it(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let server = deployment.launch().start().unwrap();
    let api = Api::of(&server);
    cancelled(&api, [LOCKED]).await;
    expect_counted(&snapshot, WITHIN, "=", 1).await;
    // The query has the whole key, because MariaDB locks every row that it reads.
    let row = format!("SELECT * FROM buyer_credit WHERE tenant_id = 1 AND buyer_id = {LOCKED} FOR UPDATE");
    let transaction = lock_rows(&deployment, &row).await;
    cancelled(&api, (0..EVENTS).map(|_| LOCKED).chain(OTHERS)).await;
    expect_counted(&snapshot, OTHERS_WITHIN, "<>", OTHERS.count() as i64).await;
    expect_counted(&snapshot, WITHIN, "=", 1).await;
    drop(transaction);
    expect_counted(&snapshot, WITHIN, "=", 1 + EVENTS).await;
    assert_waiting_counted_no_attempt(&snapshot).await;
}

/// SQLite has one writer, so a lock applies to the whole file: while another process holds it, nothing is applied.
/// Reads continue, and no attempt is counted.
async fn sqlite_write_lock_pauses_consumers_without_counting_attempts(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let server = deployment.launch().start().unwrap();
    let api = Api::of(&server);
    cancelled(&api, OTHERS).await;
    let mut transaction = snapshot.pool().acquire().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *transaction).await.unwrap();
    let before = snapshot.number("SELECT count(*) FROM buyer_credit_changes").await;
    // Longer than the program waits for SQLite's write lock (5 s).
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(snapshot.number("SELECT count(*) FROM buyer_credit_changes").await, before);
    assert_eq!(api.get(SELLER, "/api/v1/products?limit=1").await.unwrap().status, 200);
    sqlx::raw_sql("ROLLBACK").execute(&mut *transaction).await.unwrap();
    drop(transaction);
    expect_counted(&snapshot, WITHIN, "<>", OTHERS.count() as i64).await;
    assert_waiting_counted_no_attempt(&snapshot).await;
}
