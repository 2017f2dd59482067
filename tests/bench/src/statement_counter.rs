//! Database time of the service: counts the statements that the store traces, by kind of statement.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handover_sql::STATEMENT_TARGET;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt};

/// Number and time of all statements of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatementTotals {
    pub statements: u64,
    pub time: Duration,
}

/// Counts statements of this process. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatementCounter(Arc<Mutex<BTreeMap<String, StatementTotals>>>);

impl StatementCounter {
    /// Installs the counter for the rest of this process, and a log of warnings on stderr. If another subscriber is
    /// already installed, nothing is counted.
    pub(crate) fn install() -> StatementCounter {
        let counter = StatementCounter::default();
        let layer = CounterLayer(counter.clone())
            .with_filter(Targets::new().with_target(STATEMENT_TARGET, Level::TRACE));
        // lapin logs warnings for connections that are closed intentionally.
        let logged = Targets::new().with_default(LevelFilter::WARN).with_target("lapin", LevelFilter::OFF);
        let has_colour = std::io::stderr().is_terminal();
        let log = fmt::layer().with_ansi(has_colour).with_writer(std::io::stderr).with_filter(logged);
        if let Err(error) = tracing_subscriber::registry().with(layer).with(log).try_init() {
            tracing::debug!(%error, "a tracing subscriber is already installed; statements are not counted");
        }
        counter
    }

    pub(crate) fn reset(&self) {
        self.lock().clear();
    }

    /// Returns the totals by kind of statement and resets them.
    pub(crate) fn take(&self) -> BTreeMap<String, StatementTotals> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, StatementTotals>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

tokio::task_local! {
    /// Set only during a call of a broker port, whose statements are not counted.
    static IN_BROKER: ();
}

/// Runs a call of a broker port, whose statements are not counted: the time of the call is already a separate step.
pub(crate) async fn in_broker<F: Future>(call: F) -> F::Output {
    IN_BROKER.scope((), call).await
}

struct CounterLayer(StatementCounter);

impl<S: Subscriber> Layer<S> for CounterLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == STATEMENT_TARGET
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if IN_BROKER.try_with(|()| ()).is_ok() {
            return;
        }
        let mut statement = Statement::default();
        event.record(&mut statement);
        let mut counts = self.0.lock();
        let totals = counts.entry(statement.kind).or_default();
        totals.statements += 1;
        totals.time += Duration::from_micros(statement.micros);
    }
}

/// The fields of a traced statement.
#[derive(Default)]
struct Statement {
    kind: String,
    micros: u64,
}

impl Visit for Statement {
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

/// The operation and the table of a statement: `read orders`. Of writes that are sent as one statement, all tables:
/// `insert orders, outbox_events; change products`.
pub fn kind_of(sql: &str) -> String {
    let words: Vec<&str> =
        sql.split(|c: char| c.is_whitespace() || c == '(').filter(|word| !word.is_empty()).collect();
    let tables_after = |keyword: &str| -> Vec<&str> {
        let tables = words.windows(2).filter_map(|pair| match pair {
            [first, table] if *first == keyword && *table != "SELECT" => Some(*table),
            [..] => None,
        });
        tables.collect()
    };
    // The first table after this keyword; for a subquery, the table of the subquery.
    let table_after = |keyword: &str| tables_after(keyword).first().copied().unwrap_or_default();
    let inserted = tables_after("INTO");
    if inserted.len() > 1 || !inserted.is_empty() && words.first() == Some(&"WITH") {
        let inserted = format!("insert {}", inserted.join(", "));
        return match table_after("UPDATE") {
            "" => inserted,
            changed => format!("{inserted}; change {changed}"),
        };
    }
    // An UPDATE in or behind a query; not a locking clause.
    let changed = words.windows(3).find_map(|words| match words {
        [before, "UPDATE", table] if *before != "FOR" => Some(*table),
        [..] => None,
    });
    match words.first().copied().unwrap_or_default() {
        "BEGIN" | "START" => "begin".to_owned(),
        "COMMIT" => "commit".to_owned(),
        "INSERT" => format!("insert {}", table_after("INTO")),
        "UPDATE" => format!("change {}", table_after("UPDATE")),
        "DELETE" => format!("delete {}", table_after("FROM")),
        "SELECT" | "WITH" => match changed {
            Some(table) => format!("change {table}"),
            None => format!("read {}", table_after("FROM")).trim_end().to_owned(),
        },
        other => other.to_lowercase(),
    }
}
