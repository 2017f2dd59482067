//! The delays of the events of a tenant behind the backlog of another tenant, and of an event type behind that of another
//! type, beside the delays without a backlog: on an idle machine, and while others are enqueued in small transactions, at two
//! shares of the rate at which the backlog was published. Relay and consumers keep up with the first one, which shows how much
//! of a delay is that of busy processors; at the second one, the consumers may not keep up.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use handover::{Data, Event, Options, Outbox, RabbitMq, in_transaction};
use handover_events::TenantId;
use handover_tests::deployment::Pair;
use handover_tests::process::{BoxError, eventually};
use handover_tests::{rabbit_rigs, server_rigs};
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolOptions;
use tokio_util::sync::CancellationToken;

use super::percentile;

handover_tests::on_pairs!([delays_behind_backlog_of_other_tenant_or_type_are_printed]:
    #[ignore = "long: prints delays"] sqlite_and_database SqliteAlone,
    #[ignore = "long: prints delays"] postgres_and_database PostgresAlone,
    #[ignore = "long: prints delays"] mariadb_and_database MariaDbAlone,
    #[ignore = "long: prints delays"] postgres_and_rabbitmq PostgresRabbitMq,
    #[ignore = "long: prints delays"] mariadb_and_rabbitmq MariaDbRabbitMq);

const BACKLOG: i64 = 40_000;
const EVENTS_PER_TRANSACTION: i64 = 5_000;
const WITHOUT_BACKLOG: i64 = 40;
/// Shares of the rate of the backlog.
const STEADY: [f64; 2] = [0.4, 0.8];
const STEADY_EVENTS_PER_TRANSACTION: i64 = 10;
/// Events behind the backlog, half of them of another tenant and half of another type.
const BEHIND: i64 = 40;
/// Pause before an event that is measured while others are enqueued.
const BETWEEN: Duration = Duration::from_millis(50);
const TIME_LIMIT: Duration = Duration::from_secs(300);

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
    is_measured: bool,
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.returned", aggregate = "book")]
struct BookReturned {
    #[event(key)]
    book: i64,
}

/// What an event has that the events of the backlog have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    Tenant,
    Type,
}

/// The measured books, and the times at which their events were applied.
type AppliedTimes = Arc<Mutex<Vec<(i64, Instant)>>>;

/// Time of the transaction that enqueues the event, which shows how busy processors and disk are; time from the commit to publishing,
/// and to the effect.
#[derive(Debug, Clone, Copy)]
struct Delay {
    enqueued: Duration,
    sent: Duration,
    applied: Duration,
}

struct Measured {
    without: Vec<Delay>,
    behind: Vec<(Other, Delay)>,
    /// Time in which the backlog was published.
    took: Duration,
    /// While others are enqueued, and their number per second.
    beside: Vec<(f64, Vec<Delay>)>,
}

/// The servers of the tests isolate transactions as SERIALIZABLE: one may have to be repeated.
async fn committed<T>(transaction: impl AsyncFnMut() -> Result<T, BoxError>) -> T {
    eventually(TIME_LIMIT, transaction).await
}

/// Measures on one engine. A macro, because the text of a statement and the types that it binds depend on the engine.
macro_rules! measure {
    ($pair:expr, $engine:ty, $connection:ty, $sent_after_us:literal) => {{
        async fn apply(
            event: Event<BookLent>,
            _connection: &mut $connection,
            times: Data<AppliedTimes>,
        ) -> handover::Result {
            if event.is_measured {
                times.lock().unwrap().push((event.book, Instant::now()));
            }
            Ok(())
        }
        async fn apply_returned(
            event: Event<BookReturned>,
            _connection: &mut $connection,
            times: Data<AppliedTimes>,
        ) -> handover::Result {
            times.lock().unwrap().push((event.book, Instant::now()));
            Ok(())
        }
        let folder = tempfile::tempdir().unwrap();
        let database = match $pair.database_server() {
            Some(kind) => Some(server_rigs::shared(kind).await.database(None).await.unwrap()),
            None => None,
        };
        let url = match &database {
            Some(database) => database.url(),
            None => format!("sqlite:{}?mode=rwc", folder.path().join("books.db").display()),
        };
        let pool = PoolOptions::<$engine>::new().connect(&url).await.unwrap();
        let times = AppliedTimes::default();
        let mut builder = Outbox::builder(pool.clone()).data(Arc::clone(&times));
        builder = builder.consumer("books", in_transaction(apply).and(apply_returned));
        let vhost = match $pair.is_on_rabbitmq() {
            true => Some(rabbit_rigs::shared().await.vhost().await.unwrap()),
            false => None,
        };
        if let Some(vhost) = &vhost {
            builder = builder.broker(RabbitMq::new(&vhost.url()).unwrap());
        }
        let outbox = builder.build().unwrap();
        outbox.migrate().await.unwrap();
        let running = outbox.start().await.unwrap();
        let delay_of = async |book: i64, other: Other| {
            let (id, enqueued) = committed(async || {
                let begun = Instant::now();
                let mut tx = pool.begin().await?;
                let id = match other {
                    Other::Tenant => {
                        let tenant = Options::default().tenant(TenantId::try_from(2)?);
                        let event = BookLent { book, is_measured: true };
                        outbox.enqueue_with(&mut tx, event, tenant).await?
                    }
                    Other::Type => outbox.enqueue(&mut tx, BookReturned { book }).await?,
                };
                tx.commit().await?;
                Ok((id, begun.elapsed()))
            })
            .await;
            outbox.wake();
            let begun = Instant::now();
            let applied = eventually(TIME_LIMIT, async || {
                let found = times.lock().unwrap().iter().find(|(of, _)| *of == book).map(|(_, at)| *at);
                Ok(found.ok_or("the event is not applied")? - begun)
            })
            .await;
            let sql = concat!("SELECT ", $sent_after_us, " FROM outbox_events WHERE event_id = ");
            let sql = format!("{sql}'{}'", id.as_str());
            let sent = eventually(TIME_LIMIT, async || {
                let sql = sqlx::AssertSqlSafe(sql.clone());
                let sent: Option<i64> = sqlx::query_scalar(sql).fetch_one(&pool).await?;
                Ok(Duration::from_micros(u64::try_from(sent.ok_or("not marked as sent")?)?))
            })
            .await;
            Delay { enqueued, sent, applied }
        };
        let mut without = Vec::new();
        for number in 1..=WITHOUT_BACKLOG {
            without.push(delay_of(BACKLOG + number, Other::Tenant).await);
        }
        for number in 0..BACKLOG / EVENTS_PER_TRANSACTION {
            let first = number * EVENTS_PER_TRANSACTION;
            let books = first + 1..=first + EVENTS_PER_TRANSACTION;
            let mut tx = pool.begin().await.unwrap();
            let events = books.map(|book| BookLent { book, is_measured: false });
            outbox.enqueue_many(&mut tx, events).await.unwrap();
            tx.commit().await.unwrap();
        }
        outbox.wake();
        let begun = Instant::now();
        let mut behind = Vec::new();
        for number in 1..=BEHIND {
            let other = if number % 2 == 1 { Other::Tenant } else { Other::Type };
            behind.push((other, delay_of(BACKLOG + WITHOUT_BACKLOG + number, other).await));
        }
        let sql = "SELECT count(*) FROM outbox_events WHERE sent_time IS NULL";
        let left: i64 = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
        assert!(left > 0, "the backlog was published before the last event was measured");
        eventually(TIME_LIMIT, async || {
            let left: i64 = sqlx::query_scalar(sql).fetch_one(&pool).await?;
            if left == 0 { Ok(()) } else { Err(format!("{left} events are not published").into()) }
        })
        .await;
        let took = begun.elapsed();
        let mut beside = Vec::new();
        let mut next = BACKLOG + WITHOUT_BACKLOG + BEHIND + 1;
        let mut next_other = BACKLOG * 2;
        for share in STEADY {
            let pause = took.mul_f64(STEADY_EVENTS_PER_TRANSACTION as f64 / BACKLOG as f64 / share);
            let ended = CancellationToken::new();
            let first_other = next_other;
            let enqueueing = async {
                let mut tick = tokio::time::interval(pause);
                while !ended.is_cancelled() {
                    tick.tick().await;
                    let books = next_other..next_other + STEADY_EVENTS_PER_TRANSACTION;
                    next_other = books.end;
                    committed(async || {
                        let mut tx = pool.begin().await?;
                        let events = books.clone().map(|book| BookLent { book, is_measured: false });
                        outbox.enqueue_many(&mut tx, events).await?;
                        Ok(tx.commit().await?)
                    })
                    .await;
                    outbox.wake();
                }
            };
            let begun = Instant::now();
            let measuring = async {
                let mut delays = Vec::new();
                for book in next..next + WITHOUT_BACKLOG {
                    tokio::time::sleep(BETWEEN).await;
                    delays.push(delay_of(book, Other::Tenant).await);
                }
                ended.cancel();
                delays
            };
            let (delays, ()) = tokio::join!(measuring, enqueueing);
            next += WITHOUT_BACKLOG;
            beside.push(((next_other - first_other) as f64 / begun.elapsed().as_secs_f64(), delays));
        }
        running.stop(TIME_LIMIT).await.unwrap();
        Measured { without, behind, took, beside }
    }};
}

async fn delays_behind_backlog_of_other_tenant_or_type_are_printed(pair: Pair) {
    let Measured { without, behind, took, beside } = match pair {
        Pair::PostgresAlone | Pair::PostgresRabbitMq => measure!(
            pair,
            sqlx::Postgres,
            sqlx::PgConnection,
            "(extract(epoch FROM sent_time - create_time) * 1000000)::bigint"
        ),
        Pair::MariaDbAlone | Pair::MariaDbRabbitMq => measure!(
            pair,
            sqlx::MySql,
            sqlx::MySqlConnection,
            "CAST(TIMESTAMPDIFF(MICROSECOND, create_time, sent_time) AS SIGNED)"
        ),
        Pair::SqliteAlone => measure!(
            pair,
            sqlx::Sqlite,
            sqlx::SqliteConnection,
            "CAST((julianday(sent_time) - julianday(create_time)) * 86400000000 AS INTEGER)"
        ),
    };
    println!("{pair:?}: {BACKLOG} events published in {took:.1?}");
    print("without a backlog, idle", &without);
    for (per_second, delays) in beside {
        print(&format!("without a backlog, beside {per_second:.0} events/s"), &delays);
    }
    for other in [Other::Tenant, Other::Type] {
        let delays: Vec<Delay> =
            behind.iter().filter(|(of, _)| *of == other).map(|(_, delay)| *delay).collect();
        print(&format!("behind a backlog of another {other:?}"), &delays);
    }
}

fn print(when: &str, delays: &[Delay]) {
    let line = |of: fn(&Delay) -> Duration| {
        let mut delays: Vec<Duration> = delays.iter().map(of).collect();
        [50, 90, 100].map(|percent| format!("{:.1?}", percentile(&mut delays, percent))).join(", ")
    };
    let [enqueued, sent, applied] =
        [line(|delay| delay.enqueued), line(|delay| delay.sent), line(|delay| delay.applied)];
    println!(
        "  {when}: enqueued in {enqueued}; sent after {sent}; applied after {applied} (p50, p90, longest)"
    );
}
