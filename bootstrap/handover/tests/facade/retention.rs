//! The jobs that delete or archive old rows.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use handover::test::ManualClock;
use handover::{Event, RetentionPolicy, at_least_once};
use handover_archive::ArchiveUrl;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn mail(_: Event<BookLent>) -> handover::Result {
    Ok(())
}

/// Waits until a count is zero.
#[allow(clippy::disallowed_methods, reason = "the outbox runs in real time")]
async fn until_none<F: Future<Output = Result<i64, sqlx::Error>>>(count: impl Fn() -> F) -> TestResult {
    let waiting = async {
        while count().await? > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, sqlx::Error>(())
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), waiting).await??)
}

#[tokio::test]
async fn relay_deletes_old_audit_entries_of_reads() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    for (action, changed) in [("outbox.list", 0), ("outbox.redrive", 1)] {
        sqlx::query(
            "INSERT INTO outbox_audit_log (tenant_id, actor, action, selection, matched, changed, trace_id, create_time) \
             VALUES (1, 'ann', ?, '{}', 1, ?, 'a trace', '2020-01-01T00:00:00.000000Z')",
        )
        .bind(action)
        .bind(changed)
        .execute(&library.pool)
        .await?;
    }
    let running = outbox.start().await?;
    let reads = "SELECT count(*) FROM outbox_audit_log WHERE action = 'outbox.list'";
    until_none(|| library.count(reads)).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_audit_log").await?, 1);
    Ok(())
}

#[tokio::test]
async fn settled_event_moves_to_the_archive_after_its_time() -> TestResult {
    let library = Library::open().await?;
    let folder = tempfile::tempdir()?;
    let clock = ManualClock::default();
    let storage = ArchiveUrl::parse(&format!("file:{}", folder.path().display()))?.open()?;
    let builder = || {
        let builder = library.builder().clock(&clock).consumer("mail", at_least_once(mail));
        builder.archive(Arc::clone(&storage), RetentionPolicy::new(30 * DAY))
    };
    let (outbox, running) = library.start(builder()).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    running.drain().await?;
    let rows = "SELECT (SELECT count(*) FROM outbox_events) + (SELECT count(*) FROM event_consume_log)";
    assert_eq!(library.count(rows).await?, 2);
    // A new process archives at once; a running one only after its interval, which may begin after the clock advanced.
    running.stop(STOP_LIMIT).await?;
    clock.advance(31 * DAY);
    let (_, running) = library.start(builder()).await?;
    until_none(|| library.count(rows)).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_archived_events").await?, 1);
    Ok(())
}

#[tokio::test]
async fn time_that_is_too_short_is_refused() -> TestResult {
    let library = Library::open().await?;
    let folder = tempfile::tempdir()?;
    let storage = ArchiveUrl::parse(&format!("file:{}", folder.path().display()))?.open()?;
    let policy = RetentionPolicy::new(DAY).with_type("book.lent", Duration::from_secs(60));
    let builder = || library.builder().event::<BookLent>();
    for (builder, what) in [
        (
            builder().keep_audit_reads(6 * DAY),
            "`.keep_audit_reads(..)` has the time 518400s: it must be at least 604800s",
        ),
        (
            builder().keep_webhook_deliveries(Duration::ZERO),
            "`.keep_webhook_deliveries(..)` has the time 0ns",
        ),
        (builder().archive(storage, policy), "`.archive(..)` has the time 60s: it must be at least 3600s"),
    ] {
        let refused = builder.build().err().ok_or(what)?.to_string();
        assert!(refused.starts_with(what), "{refused}");
    }
    Ok(())
}
