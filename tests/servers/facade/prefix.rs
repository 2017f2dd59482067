//! Tables with a prefix, or in a schema of their own, beside tables of the service with the same names.

use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Acquire, PgPool};

use super::*;

/// Tables and an index of the service that have names of the toolkit.
const TABLES: &str = "CREATE TABLE dead_letters (name VARCHAR(20)); CREATE TABLE outbox_events (name VARCHAR(20)); \
    CREATE TABLE webhook_endpoints (name VARCHAR(20)); CREATE INDEX idx_aggregate ON outbox_events (name); \
    INSERT INTO outbox_events VALUES ('mine'); INSERT INTO dead_letters VALUES ('mine')";

/// Number of rows of the service in its own tables.
const OWN_ROWS: &str = "SELECT (SELECT count(*) FROM outbox_events WHERE name = 'mine') + (SELECT count(*) FROM dead_letters WHERE name = 'mine')";

async fn migrate_service<'p, DB: Database>(pool: &'p Pool<DB>) -> TestResult
where
    &'p Pool<DB>: Acquire<'p, Database = DB>,
    DB::Connection: Migrate,
{
    let tables = sqlx::SqlSafeStr::into_sql_str(TABLES);
    let tables = Migration::new(1, "tables".into(), MigrationType::Simple, tables, false);
    Ok(Migrator::with_migrations(vec![tables]).run(pool).await?)
}

/// The tests, for one kind of server.
macro_rules! on_server {
    ($name:ident, $engine:ty, $connection:ty, $insert:literal) => {
        mod $name {
            use handover::in_transaction;

            use super::*;

            /// Records the event under a label; fails until it is repaired.
            async fn note(
                event: Event<BookLent>,
                connection: &mut $connection,
                label: Data<&str>,
                is_repaired: Data<Arc<AtomicBool>>,
            ) -> handover::Result {
                if !is_repaired.load(Ordering::SeqCst) {
                    return Err(HandlerError::permanent("not repaired"));
                }
                let note = format!("{} {}", *label, event.reader);
                sqlx::query($insert).bind(event.event_id()).bind(note).execute(connection).await?;
                Ok(())
            }

            #[tokio::test]
            async fn outbox_with_prefix_works_beside_tables_of_the_service_whichever_migrates_first()
            -> TestResult {
                for service_first in [true, false] {
                    let service = Service::<$engine>::new().await?;
                    if service_first {
                        migrate_service(&service.pool).await?;
                        let refused = service.builder().build()?.migrate().await.unwrap_err().to_string();
                        assert!(
                            refused.contains("`Builder::table_prefix`") && refused.contains("rename it"),
                            "{refused}"
                        );
                    }
                    let is_repaired = Arc::new(AtomicBool::new(false));
                    let builder =
                        service.builder().table_prefix("handover_").data("to").data(Arc::clone(&is_repaired));
                    let (outbox, running) =
                        service.start(builder.consumer("reminders", in_transaction(note))).await?;
                    if !service_first {
                        migrate_service(&service.pool).await?;
                        outbox.migrate().await?;
                    }
                    service.enqueue(&outbox, BookLent::to("ann")).await?;
                    running.drain().await?;
                    is_repaired.store(true, Ordering::SeqCst);
                    for line in [
                        "queues",
                        "outbox list",
                        "dlq list --queue library.reminders",
                        "dlq replay --queue library.reminders --reason repaired",
                        "outbox redrive --status sent --reason again",
                        "audit list --changes",
                    ] {
                        command(line)?.run(&outbox).await?;
                    }
                    running.drain().await?;
                    for event in running.enqueued::<BookLent>().await? {
                        running.deliver_again(event.event_id()).await?;
                    }
                    running.stop(TIME_LIMIT).await?;
                    assert_eq!(service.notes().await?, ["to ann"]);
                    let own: i64 = sqlx::query_scalar(OWN_ROWS).fetch_one(&service.pool).await?;
                    assert_eq!(own, 2);
                }
                Ok(())
            }

            /// Two processes of each of two outboxes: one enqueues, the other one publishes and applies.
            #[tokio::test]
            async fn outboxes_with_different_prefixes_apply_only_their_own_events() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let mut processes = Vec::new();
                let mut outboxes = Vec::new();
                for prefix in ["one_", "two_"] {
                    let builder = || service.builder().table_prefix(prefix);
                    let sending = builder().event::<BookLent>().roles([]);
                    let (outbox, sender) = service.start(sending).await?;
                    let applying = builder().data(prefix).data(Arc::new(AtomicBool::new(true)));
                    let (_, running) =
                        service.start(applying.consumer("reminders", in_transaction(note))).await?;
                    outboxes.push(outbox);
                    processes.push((sender, running));
                }
                let mut tx = service.pool.begin().await?;
                for (outbox, reader) in outboxes.iter().zip(["ann", "ben"]) {
                    outbox.enqueue(&mut tx, BookLent::to(reader)).await?;
                }
                tx.commit().await?;
                for ((sender, running), reader) in processes.into_iter().zip(["ann", "ben"]) {
                    running.drain().await?;
                    let enqueued = running.enqueued::<BookLent>().await?;
                    assert_eq!(
                        enqueued.iter().map(|event| event.reader.as_str()).collect::<Vec<_>>(),
                        [reader]
                    );
                    sender.stop(TIME_LIMIT).await?;
                    running.stop(TIME_LIMIT).await?;
                }
                let mut notes = service.notes().await?;
                notes.sort();
                assert_eq!(notes, ["one_ ann", "two_ ben"]);
                Ok(())
            }
        }
    };
}

on_server!(mariadb, sqlx::MySql, sqlx::MySqlConnection, "INSERT INTO effects (event_id, note) VALUES (?, ?)");
on_server!(
    postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    "INSERT INTO effects (event_id, note) VALUES ($1, $2)"
);

async fn remind(event: Event<BookLent>, connection: &mut sqlx::PgConnection) -> handover::Result {
    let insert = sqlx::query("INSERT INTO effects (event_id, note) VALUES ($1, $2)");
    insert.bind(event.event_id()).bind(&event.reader).execute(connection).await?;
    Ok(())
}

/// The tables of the outbox are in the first schema of the search path of its pool; the service finds them at the end of
/// its own search path.
#[tokio::test]
async fn outbox_in_a_schema_of_its_own_works_beside_tables_of_the_service() -> TestResult {
    let service = Service::<sqlx::Postgres>::new().await?;
    sqlx::raw_sql("CREATE SCHEMA outbox; CREATE TABLE dead_letters (name TEXT); CREATE INDEX idx_aggregate ON effects (note)")
        .execute(&service.pool)
        .await?;
    let with_path = async |path: &'static str| -> Result<PgPool, sqlx::Error> {
        let options = service.pool.connect_options().as_ref().clone().options([("search_path", path)]);
        PgPoolOptions::new().connect_with(options).await
    };
    let refused = Outbox::builder(service.pool.clone()).build()?.migrate().await.unwrap_err().to_string();
    assert!(refused.contains("another schema (`search_path`)"), "{refused}");
    let builder = Outbox::builder(with_path("outbox,public").await?).name("library");
    let builder = builder.consumer("reminders", handover::in_transaction(remind));
    let (outbox, running) = service.start(builder).await?;
    let pool = with_path("public,outbox").await?;
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO dead_letters VALUES ('mine')").execute(&mut *tx).await?;
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    tx.commit().await?;
    running.drain().await?;
    command("outbox list")?.run(&outbox).await?;
    running.stop(TIME_LIMIT).await?;
    assert_eq!(service.notes().await?, ["ann"]);
    let own: i64 = sqlx::query_scalar("SELECT count(*) FROM public.dead_letters").fetch_one(&pool).await?;
    let applied: i64 =
        sqlx::query_scalar("SELECT count(*) FROM outbox.event_consume_log").fetch_one(&pool).await?;
    assert_eq!((own, applied), (1, 1));
    Ok(())
}
