//! A consumer whose handler runs statements with the types of sqlx on the lent connection of its unit of work.

use std::marker::PhantomData;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_contract::samples::{BOOK_LENT, event};
use handover_events::{ConsumeStatus, RetryPolicy};
use handover_memory::SeededRandom;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::{
    ConsumeQueries as _, ConsumeRecord, OutboxRepo as _, Store as _, UnitOfWork as _,
};
use handover_outbox::topology::Topology;
use handover_outbox::{
    ConsumerSettings, EventSpec, Outbox, OwnSettings, RelaySettings, Tasks, Transactor, WakeupNotifier,
    runtime,
};
use handover_sql::{DatabaseBroker, HasConnection as _, Session, SqlStore, lent_error};
use handover_system::SystemClock;
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};

const CONSUMER: &str = "lent";
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Number of calls of [`Act::LoseConnection`] that lose the connection.
const LOST: u32 = 3;

/// What the handler does with each event.
#[derive(Clone, Copy)]
pub enum Act {
    /// Inserts a row, with a UUID and a time as parameters.
    Insert,
    /// Inserts a row in a transaction of its own, commits it, and fails.
    FailAfterNestedCommit,
    /// Inserts a row, and ignores the error of another statement.
    IgnoreError,
    /// Loses the connection in its first calls, then inserts a row.
    LoseConnection,
}

/// The handler on connections of one engine.
pub struct Handling<C> {
    act: Act,
    calls: AtomicU32,
    connection: PhantomData<fn() -> C>,
}

macro_rules! handler {
    ($connection:ty, insert: $insert:literal, end_connection: $end_connection:literal) => {
        #[async_trait]
        impl Handler<Session> for Handling<$connection> {
            fn name(&self) -> &str {
                CONSUMER
            }

            fn event_types(&self) -> Vec<&str> {
                vec![BOOK_LENT]
            }

            async fn apply(
                &self,
                unit: &mut Session,
                events: &[Event],
            ) -> Result<Vec<Applied>, HandlerError> {
                let connection: &mut $connection = unit.connection().await?;
                let call = self.calls.fetch_add(1, Ordering::Relaxed);
                for event in events {
                    let insert = sqlx::query($insert)
                        .bind("0192f3c1-77aa-7000-8000-000000000001")
                        .bind(DateTime::<Utc>::UNIX_EPOCH)
                        .bind(event.row.event_id.as_str());
                    let done = match self.act {
                        Act::Insert => insert.execute(&mut *connection).await,
                        Act::FailAfterNestedCommit => {
                            let mut nested = connection.begin().await.map_err(lent_error)?;
                            insert.execute(&mut *nested).await.map_err(lent_error)?;
                            nested.commit().await.map_err(lent_error)?;
                            return Err(HandlerError::Recoverable("after the nested commit".to_owned()));
                        }
                        Act::IgnoreError => {
                            let _ = sqlx::query("SELECT * FROM missing").execute(&mut *connection).await;
                            insert.execute(&mut *connection).await.or(Ok(Default::default()))
                        }
                        Act::LoseConnection if call < LOST => {
                            sqlx::query($end_connection).execute(&mut *connection).await
                        }
                        Act::LoseConnection => insert.execute(&mut *connection).await,
                    };
                    done.map_err(lent_error)?;
                }
                Ok(events.iter().map(|_| Applied::default()).collect())
            }
        }
    };
}

handler!(
    PgConnection,
    insert: "INSERT INTO effects (id, at, note) VALUES ($1::uuid, $2, $3)",
    end_connection: "SELECT pg_terminate_backend(pg_backend_pid())"
);
handler!(
    MySqlConnection,
    insert: "INSERT INTO effects (id, at, note) VALUES (?, ?, ?)",
    end_connection: "KILL CONNECTION_ID()"
);
handler!(
    SqliteConnection,
    insert: "INSERT INTO effects (id, at, note) VALUES (?, ?, ?)",
    end_connection: "SELECT 1"
);

/// Sends an event to a consumer whose handler acts in this way, and waits until the event is applied or dead. Returns the
/// consume-log record and the number of rows in the table `effects`.
pub async fn consume<C: 'static>(store: &SqlStore, act: Act) -> (ConsumeRecord, i64)
where
    Handling<C>: Handler<Session>,
{
    let mut unit = store.begin().await.unwrap();
    let table = "CREATE TABLE effects (id CHAR(36), at TIMESTAMP NULL, note VARCHAR(64))";
    let table = if is::<C, PgConnection>() {
        table.replace("CHAR(36), at TIMESTAMP", "UUID, at TIMESTAMPTZ")
    } else {
        table.to_owned()
    };
    unit.execute(&table, vec![]).await.unwrap();
    unit.commit().await.unwrap();
    let tasks = Tasks::default();
    let random = Arc::new(SeededRandom::new(7));
    let tx = Transactor::new(Arc::new(store.clone()) as Arc<_>, Arc::new(SystemClock), random, tasks.clone());
    let handler = Handling::<C> { act, calls: AtomicU32::new(0), connection: PhantomData };
    let subscriber = Subscriber::new("lent.queue", Arc::new(handler) as Arc<_>).with_settings(OwnSettings {
        prefetch: NonZeroU16::new(2),
        retry: Some(RetryPolicy::consumer(Duration::from_millis(10), Duration::from_millis(10), 1)),
        ..OwnSettings::default()
    });
    let topology = Topology::new("lent.events", "lent.dead-letters", "lent.dead");
    let outbox = Outbox::new(tx.outbox(), Arc::new(DatabaseBroker::new(store)), topology)
        .with_event(EventSpec::new(BOOK_LENT, "book.lent"))
        .with_consumer(&subscriber, &["book.lent"]);
    runtime::prepare(&outbox).await.unwrap();
    let wake = WakeupNotifier::default();
    runtime::start_relay(&outbox, &wake, &RelaySettings::default());
    runtime::start_consumers(&outbox, vec![subscriber.bind(tx.store())], &ConsumerSettings::default());
    let event = event("e-1", 1, 1);
    let mut unit = store.begin().await.unwrap();
    unit.append(std::slice::from_ref(&event)).await.unwrap();
    unit.commit().await.unwrap();
    let settled = async {
        loop {
            let record = store.view().await.unwrap().consumption(CONSUMER, &event.event_id).await.unwrap();
            match record {
                Some(record) if matches!(record.status, ConsumeStatus::Success | ConsumeStatus::Dead) => {
                    return record;
                }
                Some(_) | None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let record = tokio::time::timeout(TIME_LIMIT, settled).await.expect("the event is not settled");
    tasks.stop().await;
    let mut view = store.view().await.unwrap();
    let rows = view.fetch_one("SELECT count(*) AS n FROM effects", vec![]).await.unwrap().unwrap();
    (record, rows.int("n").unwrap())
}

fn is<C: 'static, D: 'static>() -> bool {
    std::any::TypeId::of::<C>() == std::any::TypeId::of::<D>()
}
