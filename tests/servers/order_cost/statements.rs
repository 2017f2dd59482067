//! The statements of the store, as it traces them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use handover_sql::STATEMENT_TARGET;
use tokio::task::Id;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// Longest text of a statement in a message.
const SHOWN: usize = 200;

pub(super) struct Statement {
    sql: String,
    /// The task that ran it: a transaction runs in one task.
    task: Option<Id>,
}

impl Statement {
    fn is_write(&self) -> bool {
        // The write may be in a WITH clause or follow one.
        let follows = |before: &str, clause: &str| self.sql.contains(&format!("{before}{clause}"));
        let is_changing =
            |clause| self.sql.starts_with(clause) || follows("(", clause) || follows(") ", clause);
        ["INSERT ", "UPDATE ", "DELETE "].into_iter().any(is_changing)
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.sql.split_whitespace().collect();
        f.write_str(&words.join(" ").chars().take(SHOWN).collect::<String>())
    }
}

/// Number of commits: COMMIT, and each write outside a transaction.
pub(super) fn commits(statements: &[Statement]) -> usize {
    let mut in_transaction = BTreeSet::new();
    let mut commits = 0;
    for statement in statements {
        let task = statement.task.map(|task| task.to_string());
        match statement.sql.as_str() {
            "BEGIN" => {
                in_transaction.insert(task);
            }
            "COMMIT" => {
                in_transaction.remove(&task);
                commits += 1;
            }
            _ if statement.is_write() && !in_transaction.contains(&task) => commits += 1,
            _ => {}
        }
    }
    commits
}

/// Records the statements of the current thread. Clones share the list.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<Statement>>>);

impl Recorder {
    /// Records until the guard is dropped.
    pub(super) fn subscribe(&self) -> DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(Recording(self.clone())))
    }

    /// Returns the statements since the last call.
    pub(super) fn take(&self) -> Vec<Statement> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Recording(Recorder);

impl<S: Subscriber> Layer<S> for Recording {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == STATEMENT_TARGET
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut sql = Sql::default();
        event.record(&mut sql);
        let statement = Statement { sql: sql.0, task: tokio::task::try_id() };
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(statement);
    }
}

/// The field `sql`.
#[derive(Default)]
struct Sql(String);

impl Visit for Sql {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "sql" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
