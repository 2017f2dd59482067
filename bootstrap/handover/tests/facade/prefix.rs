//! Tables with a prefix, beside tables of the service with the same names and beside another outbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{FromArgMatches as _, Subcommand as _};
use handover::cli::Commands;
use handover::{BuildError, Builder, Data, Enqueuer, Event, HandlerError, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{SqlSafeStr as _, Sqlite, SqliteConnection};

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

/// Tables and an index of the service that have names of the toolkit.
const TABLES: &str = "CREATE TABLE dead_letters (name TEXT); CREATE TABLE outbox_events (name TEXT); \
    CREATE TABLE webhook_endpoints (name TEXT); CREATE INDEX idx_aggregate ON outbox_events (name); \
    INSERT INTO outbox_events VALUES ('mine'); INSERT INTO dead_letters VALUES ('mine')";

async fn migrate_service(library: &Library) -> TestResult {
    let tables = Migration::new(1, "tables".into(), MigrationType::Simple, TABLES.into_sql_str(), false);
    Ok(Migrator::with_migrations(vec![tables]).run(&library.pool).await?)
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.reminded", aggregate = "reader")]
struct ReaderReminded {
    #[event(key)]
    reader: String,
}

/// Fails until it is repaired; enqueues another event.
async fn remind(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    is_repaired: Data<Arc<AtomicBool>>,
    outbox: Data<Enqueuer<Sqlite>>,
) -> handover::Result {
    if !is_repaired.load(Ordering::SeqCst) {
        return Err(HandlerError::permanent("not repaired"));
    }
    note(connection, event.event_id(), &event.reader).await?;
    outbox.enqueue(connection, ReaderReminded { reader: event.reader.clone() }).await?;
    Ok(())
}

async fn count(event: Event<ReaderReminded>, connection: &mut SqliteConnection) -> handover::Result {
    Ok(note(connection, event.event_id(), "counted").await?)
}

#[tokio::test]
async fn outbox_with_prefix_works_beside_tables_of_the_service_whichever_migrates_first() -> TestResult {
    for service_first in [true, false] {
        let library = Library::open().await?;
        if service_first {
            migrate_service(&library).await?;
            let refused = library.builder().build()?.migrate().await.unwrap_err().to_string();
            assert!(
                refused.contains("`Builder::table_prefix`") && refused.contains("rename it"),
                "{refused}"
            );
        }
        let is_repaired = Arc::new(AtomicBool::new(false));
        let builder = library
            .builder()
            .table_prefix("handover_")
            .data(Arc::clone(&is_repaired))
            .consumer("reminders", in_transaction(remind))
            .consumer("counts", in_transaction(count));
        let (outbox, running) = library.start(builder).await?;
        if !service_first {
            migrate_service(&library).await?;
            outbox.migrate().await?;
        }
        library.lend(&outbox, BookLent::to("ann")).await?;
        running.drain().await?;
        is_repaired.store(true, Ordering::SeqCst);
        for line in [
            "outbox list",
            "dlq list --status open",
            "dlq replay --queue library.reminders --reason repaired",
            "outbox redrive --status sent --reason again",
            "audit list",
            "queues",
        ] {
            let program = Commands::augment_subcommands(clap::Command::new("library"));
            let words = std::iter::once("library").chain(line.split(' '));
            let command = Commands::from_arg_matches(&program.try_get_matches_from(words)?)?;
            command.run(&outbox).await.map_err(|error| format!("{line}: {error}"))?;
        }
        running.drain().await?;
        for event in running.enqueued::<BookLent>().await? {
            running.deliver_again(event.event_id()).await?;
        }
        running.stop(STOP_LIMIT).await?;
        assert_eq!(library.notes().await?, ["ann", "counted"]);
        let applied = "SELECT count(*) FROM handover_event_consume_log WHERE status = 'SUCCESS'";
        assert_eq!(library.count(applied).await?, 2);
        let left_alone = "SELECT count(*) FROM (SELECT * FROM outbox_events UNION ALL SELECT * FROM dead_letters) \
                          WHERE name = 'mine'";
        assert_eq!(library.count(left_alone).await?, 2);
    }
    Ok(())
}

async fn lend(event: Event<BookLent>, connection: &mut SqliteConnection, of: Data<&str>) -> handover::Result {
    Ok(note(connection, event.event_id(), &format!("{} {}", *of, event.reader)).await?)
}

#[tokio::test]
async fn outboxes_with_different_prefixes_apply_only_their_own_events() -> TestResult {
    let library = Library::open().await?;
    let with = |prefix: &'static str| -> Builder<Sqlite> {
        let builder = library.builder().table_prefix(prefix).data(prefix);
        builder.consumer("reminders", in_transaction(lend))
    };
    let (first, of_first) = library.start(with("")).await?;
    let (second, of_second) = library.start(with("second_")).await?;
    library.lend(&first, BookLent::to("ann")).await?;
    library.lend(&second, BookLent::to("ben")).await?;
    library.lend(&second, BookLent::to("cem")).await?;
    for (running, readers) in [(&of_first, &["ann"][..]), (&of_second, &["ben", "cem"])] {
        running.drain().await?;
        let enqueued = running.enqueued::<BookLent>().await?;
        assert_eq!(enqueued.iter().map(|event| event.reader.as_str()).collect::<Vec<_>>(), readers);
    }
    of_first.stop(STOP_LIMIT).await?;
    of_second.stop(STOP_LIMIT).await?;
    let mut notes = library.notes().await?;
    notes.sort();
    assert_eq!(notes, [" ann", "second_ ben", "second_ cem"]);
    Ok(())
}

#[tokio::test]
async fn invalid_prefix_is_refused_by_build() -> TestResult {
    let library = Library::open().await?;
    let refused = library.builder().table_prefix("Hand Over").build().err();
    assert!(matches!(refused, Some(BuildError::TablePrefix(_))), "{refused:?}");
    Ok(())
}
