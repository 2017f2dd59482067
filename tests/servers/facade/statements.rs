//! Number of statements with which an event is enqueued on the connection of a service.

use std::cell::Cell;
use std::sync::Once;

use handover::{Event, EventType, Outbox};
use handover_tests::process::BoxError;
use handover_tests::server_rigs::shared;
use handover_tests::servers::database::ServerKind;
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolOptions;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "shelf.moved", aggregate = "shelf")]
struct ShelfMoved {
    #[event(key)]
    shelf: String,
}

thread_local! {
    /// Number of statements that sqlx has logged on this thread.
    static STATEMENTS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the statements that sqlx logs. It is the subscriber of the whole program: whether sqlx logs at all is decided once
/// for all threads.
struct Statements;

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        STATEMENTS.set(STATEMENTS.get() + 1);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The test, for one kind of server.
macro_rules! on_server {
    ($name:ident, $kind:expr, $engine:ty, $statements:literal) => {
        /// Number of statements of `enqueue`.
        async fn $name<E: EventType>(
            outbox: &Outbox<$engine>,
            tx: &mut sqlx::Transaction<'static, $engine>,
            event: E,
        ) -> Result<usize, BoxError> {
            static COUNTING: Once = Once::new();
            COUNTING.call_once(|| drop(tracing::subscriber::set_global_default(Statements)));
            let before = STATEMENTS.get();
            outbox.enqueue(tx, event).await?;
            Ok(STATEMENTS.get() - before)
        }

        mod $name {
            use super::*;

            #[tokio::test]
            async fn event_is_enqueued_by_the_promised_number_of_statements() -> Result<(), BoxError> {
                let database = shared($kind).await.database(None).await?;
                let pool = PoolOptions::<$engine>::new().connect(&database.url()).await?;
                let outbox =
                    Outbox::builder(pool.clone()).event::<BookLent>().event::<ShelfMoved>().build()?;
                outbox.migrate().await?;
                let mut tx = pool.begin().await?;
                for book in [1, 1, 2] {
                    assert_eq!(super::$name(&outbox, &mut tx, BookLent { book }).await?, $statements);
                }
                // The first text key of a process is preceded by the search for processes of an older version.
                for (shelf, more) in [("A", 1), ("A", 0), ("B", 0)] {
                    let event = ShelfMoved { shelf: shelf.to_owned() };
                    assert_eq!(super::$name(&outbox, &mut tx, event).await?, $statements + more, "{shelf}");
                }
                tx.commit().await?;
                Ok(())
            }
        }
    };
}

on_server!(mariadb, ServerKind::MariaDb, sqlx::MySql, 3);
on_server!(postgres, ServerKind::Postgres, sqlx::Postgres, 1);
