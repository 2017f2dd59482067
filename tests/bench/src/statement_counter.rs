//! Where the service's time goes in the database: the store tells of each statement, this adds them up by what they do.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handover_sql::STATEMENTS;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt};

/// How often a kind of statement ran, and how long all of them took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spent {
    pub(super) statements: u64,
    pub(super) time: Duration,
}

/// All that was heard since it was last taken. Clones hear together.
#[derive(Debug, Clone, Default)]
pub(super) struct Statements(Arc<Mutex<BTreeMap<String, Spent>>>);

impl Statements {
    /// Listens for the rest of this process; warnings go to stderr. Where a log is installed already, nothing is heard.
    pub(super) fn listen() -> Statements {
        let statements = Statements::default();
        let heard = Ear(statements.clone()).with_filter(Targets::new().with_target(STATEMENTS, Level::TRACE));
        // The driver complains of connections that were closed on purpose.
        let told = Targets::new().with_default(LevelFilter::WARN).with_target("lapin", LevelFilter::OFF);
        let stderr = std::io::stderr();
        let log = fmt::layer().with_ansi(stderr.is_terminal()).with_writer(std::io::stderr).with_filter(told);
        if let Err(error) = tracing_subscriber::registry().with(heard).with(log).try_init() {
            tracing::debug!(%error, "the log is installed already");
        }
        statements
    }

    /// What was heard; from here on it begins anew.
    pub(super) fn take(&self) -> BTreeMap<String, Spent> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Spent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

tokio::task_local! {
    /// Set while a broker works: what it does in a database counts as its own time already.
    static OF_THE_BROKER: ();
}

/// Runs what a broker does; its statements are not told apart.
pub(super) async fn of_the_broker<F: Future>(work: F) -> F::Output {
    OF_THE_BROKER.scope((), work).await
}

struct Ear(Statements);

impl<S: Subscriber> Layer<S> for Ear {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == STATEMENTS
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if OF_THE_BROKER.try_with(|()| ()).is_ok() {
            return;
        }
        let mut heard = Heard::default();
        event.record(&mut heard);
        let mut statements = self.0.lock();
        let spent = statements.entry(heard.kind).or_default();
        spent.statements += 1;
        spent.time += Duration::from_micros(heard.micros);
    }
}

#[derive(Default)]
struct Heard {
    kind: String,
    micros: u64,
}

impl Visit for Heard {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "sql" {
            self.kind = kind_of(value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "micros" {
            self.micros = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// What a statement does, to which table: `read orders`.
fn kind_of(sql: &str) -> String {
    let words: Vec<&str> =
        sql.split(|c: char| c.is_whitespace() || c == '(').filter(|word| !word.is_empty()).collect();
    // What stands behind it, unless that is another query.
    let after = |word: &str| {
        let tables = words.windows(2).filter_map(|pair| match pair {
            [first, table] if *first == word && *table != "SELECT" => Some(*table),
            [..] => None,
        });
        tables.map(str::to_owned).next().unwrap_or_default()
    };
    match words.first().copied().unwrap_or_default() {
        "BEGIN" | "START" => "begin".to_owned(),
        "COMMIT" => "commit".to_owned(),
        "INSERT" => format!("insert {}", after("INTO")),
        "UPDATE" => format!("change {}", after("UPDATE")),
        "DELETE" => format!("delete {}", after("FROM")),
        "SELECT" | "WITH" => format!("read {}", after("FROM")).trim_end().to_owned(),
        other => other.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn a_statement_is_known_by_what_it_does_and_its_table() {
        let kinds = [
            ("BEGIN IMMEDIATE", "begin"),
            ("START TRANSACTION", "begin"),
            ("COMMIT", "commit"),
            ("INSERT INTO orders (id) VALUES (?)", "insert orders"),
            ("UPDATE outbox_events FORCE INDEX (uk_event_id) SET status = 'SENT'", "change outbox_events"),
            ("DELETE FROM broker_messages WHERE id IN (?)", "delete broker_messages"),
            ("SELECT o.id, (SELECT 1) FROM outbox_events o WHERE x", "read outbox_events"),
            ("SELECT * FROM (SELECT o.next FROM outbox_events o) earliest", "read outbox_events"),
            ("SELECT clock_timestamp() AS now", "read"),
        ];
        for (sql, kind) in kinds {
            assert_eq!(kind_of(sql), kind);
        }
    }
}
