//! Operators' commands in a service's own command line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory as _, Parser as _};
use handover::cli::Commands;
use handover::{Data, Error, Event, HandlerError, Outbox, in_transaction};
use sqlx::{Sqlite, SqliteConnection};

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

/// The command line of a service.
#[derive(Debug, clap::Parser)]
#[command(name = "library")]
enum Cli {
    /// Serve requests
    Serve,
    #[command(flatten)]
    Operator(Commands),
}

/// Runs a command line of the service.
async fn run(outbox: &Outbox<Sqlite>, line: &str) -> Result<(), Box<dyn std::error::Error>> {
    match Cli::try_parse_from(std::iter::once("library").chain(line.split(' ')))? {
        Cli::Serve => Err("not a command of operators".into()),
        Cli::Operator(commands) => Ok(commands.run(outbox).await?),
    }
}

async fn remind(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    is_repaired: Data<Arc<AtomicBool>>,
) -> handover::Result {
    if !is_repaired.load(Ordering::SeqCst) {
        return Err(HandlerError::permanent("no such reader"));
    }
    note(connection, event.event_id(), &event.reader).await?;
    Ok(())
}

#[tokio::test]
async fn commands_replay_a_dead_letter_and_redrive_an_event_while_the_service_runs() -> TestResult {
    let library = Library::open().await?;
    let is_repaired = Arc::new(AtomicBool::new(false));
    let builder = library.builder().data(Arc::clone(&is_repaired));
    let (outbox, running) = library.start(builder.consumer("reminders", in_transaction(remind))).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    for line in ["outbox list", "outbox blocked", "dlq list --status open", "queues", "audit list"] {
        run(&outbox, line).await.map_err(|error| format!("{line}: {error}"))?;
    }

    is_repaired.store(true, Ordering::SeqCst);
    run(&outbox, "dlq replay --queue library.reminders --reason repaired").await?;
    library.consumed("SUCCESS", 1).await?;
    run(&outbox, "outbox redrive --status sent --reason again").await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ann"]);
    let changes = "SELECT count(*) FROM outbox_audit_log WHERE reason IN ('repaired', 'again') AND actor LIKE 'command-line:%'";
    assert_eq!(library.count(changes).await?, 2);
    Ok(())
}

#[tokio::test]
async fn command_on_a_row_that_does_not_exist_says_where_to_look() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    let refused = run(&outbox, "outbox list").await.unwrap_err();
    let not_migrated = refused.downcast_ref();
    assert!(matches!(not_migrated, Some(Error::NotMigrated { found: None, .. })), "{refused}");
    outbox.migrate().await?;
    let refused = run(&outbox, "outbox show e-1").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "not found: event e-1: the id is mistyped, or the row is in another database; see `library outbox list`"
    );
    let refused = run(&outbox, "dlq discard m-1 --reason test").await.unwrap_err();
    assert!(refused.to_string().ends_with("see `library dlq list`"), "{refused}");
    Ok(())
}

#[test]
fn help_calls_the_commands_of_the_program() {
    let mut pages = vec![Cli::command()];
    let mut texts = Vec::new();
    while let Some(mut page) = pages.pop() {
        texts.push(page.render_long_help().to_string());
        pages.extend(page.get_subcommands().cloned());
    }
    let text = texts.join("\n");
    assert!(text.contains("library dlq replay --queue library.reminders --dry-run"), "{text}");
    for part in [
        "handover",
        "`serve`",
        "outbox.on-failed",
        "outbox.scan-interval",
        "/api/v1",
        "--config",
        "archive.",
        "alerts.*",
        "state-interval",
    ] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}
