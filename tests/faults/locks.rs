//! A row that somebody else's transaction keeps locked: the events that need it wait, and no other.

use std::time::Duration;

use handover_tests::books::Books;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};

use crate::WITHIN;

handover_tests::on_pairs!([a_locked_row_holds_up_only_the_events_that_need_it]:
    mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);
handover_tests::on_pairs!([while_another_process_writes_nothing_is_applied_and_nothing_is_charged]:
    sqlite_and_database SqliteAlone);

const SELLER: i64 = 1;
const LOCKED: i64 = 2;
/// More events than a consumer has in hand at a time.
const EVENTS: i64 = 25;
/// How soon the others are applied: 10 s on a quiet machine.
const OTHERS_WITHIN: Duration = Duration::from_secs(30);
const OTHERS: std::ops::RangeInclusive<i64> = 3..=12;

/// Somebody else's transaction. Dropping it ends it.
enum Holder {
    MySql(#[allow(dead_code)] MySqlConnection),
    Postgres(#[allow(dead_code)] PgConnection),
}

async fn hold(deployment: &Deployment, sql: &str) -> Holder {
    let url = deployment.database().url();
    let sql = [String::from("BEGIN"), sql.to_owned()];
    match deployment.database().server().kind() {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            for sql in sql {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            Holder::MySql(connection)
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            for sql in sql {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            Holder::Postgres(connection)
        }
    }
}

/// Orders of these buyers, each cancelled by its buyer.
async fn cancelled(api: &Api, buyers: impl IntoIterator<Item = i64>) {
    for buyer in buyers {
        let product = api.list_product(SELLER, "Desk lamp").await.unwrap().id("productId");
        let order = api.place_order(buyer, product).await.unwrap().id("orderId");
        api.cancel(buyer, order).await.unwrap().value();
    }
}

/// Waits until so many cancellations were counted for these buyers.
async fn counted(books: &Books, within: Duration, which: &str, count: i64) {
    let sql = format!("SELECT count(*) FROM buyer_credit_changes WHERE buyer_id {which} {LOCKED}");
    eventually(within, async || match books.count(&sql).await? {
        found if found == count => Ok(()),
        found => Err(format!("{found} of {count} are counted").into()),
    })
    .await;
}

/// No event was charged an attempt for waiting, and none is dead.
async fn nothing_was_charged(books: &Books) {
    let charged = "SELECT count(*) FROM event_consume_log WHERE attempts <> 1 OR status <> 'SUCCESS'";
    eventually(WITHIN, async || match books.count(charged).await? {
        0 => Ok(()),
        events => Err(format!("{events} are not applied at the first attempt").into()),
    })
    .await;
    assert_eq!(books.number("SELECT count(*) FROM dead_letters").await, 0);
}

async fn a_locked_row_holds_up_only_the_events_that_need_it(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let server = deployment.launch().start().unwrap();
    let api = Api::of(&server);
    cancelled(&api, [LOCKED]).await;
    counted(&books, WITHIN, "=", 1).await;
    // By its whole key: MariaDB locks whatever it looks at.
    let row = format!("SELECT * FROM buyer_credit WHERE tenant_id = 1 AND buyer_id = {LOCKED} FOR UPDATE");
    let holder = hold(&deployment, &row).await;
    cancelled(&api, (0..EVENTS).map(|_| LOCKED).chain(OTHERS)).await;
    counted(&books, OTHERS_WITHIN, "<>", OTHERS.count() as i64).await;
    counted(&books, WITHIN, "=", 1).await;
    drop(holder);
    counted(&books, WITHIN, "=", 1 + EVENTS).await;
    nothing_was_charged(&books).await;
}

/// SQLite has one writer, so a lock there is that of the whole file: while another process keeps it nothing is applied.
/// Reading goes on, and no event is charged an attempt.
async fn while_another_process_writes_nothing_is_applied_and_nothing_is_charged(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let server = deployment.launch().start().unwrap();
    let api = Api::of(&server);
    cancelled(&api, OTHERS).await;
    let mut holder = books.pool().acquire().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *holder).await.unwrap();
    let before = books.number("SELECT count(*) FROM buyer_credit_changes").await;
    // Longer than the program waits for the writer (5 s).
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(books.number("SELECT count(*) FROM buyer_credit_changes").await, before);
    assert_eq!(api.get(SELLER, "/api/v1/products?limit=1").await.unwrap().status, 200);
    sqlx::raw_sql("ROLLBACK").execute(&mut *holder).await.unwrap();
    drop(holder);
    counted(&books, WITHIN, "<>", OTHERS.count() as i64).await;
    nothing_was_charged(&books).await;
}
