//! Whoever may write to the database, as an operator of all of it: the same use cases as behind the API, on the file
//! itself, beside whoever serves it.

use handover_events::TenantId;
use handover_events::Trace;
use handover_outbox::operations;
use marketplace::use_cases::UseCaseError;
use marketplace::{Actor, App, CommandContext};
use marketplace_sql::SqlMarket;

use marketplace_wiring::Failure;
use marketplace_wiring::adapters::{Looked, Reach};
use marketplace_wiring::config::DatabaseChoice;
use marketplace_wiring::terminal::Common;

/// An operator at the database.
pub(super) struct Operator {
    pub(super) app: App,
    pub(super) context: CommandContext,
    pub(super) acting: operations::Operator,
    pub(super) database: DatabaseChoice,
    store: SqlMarket,
}

impl Operator {
    /// At the database of this configuration, if its schema is this program's.
    pub(super) async fn at(common: &Common, reach: Reach) -> Result<Operator, Failure> {
        let config = common.load()?;
        let looked = Looked::readable(&config.database).await?;
        let app = looked.application(&config, reach)?;
        let trace = Trace { trace_id: trace_id(&app), traceparent: None };
        let actor = Actor::CommandLine(user());
        let context = CommandContext { actor, tenant: TenantId::DEFAULT, trace, idempotency: None };
        let acting = context.operator().map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(Operator { app, context, acting, database: config.database, store: looked.store })
    }

    /// Closes the database. Where others serve it, they are told what was changed.
    pub(super) async fn close(&self) {
        self.store.close().await;
    }

    /// What a use case's refusal means here.
    pub(super) fn failed(&self, error: impl Into<UseCaseError>) -> Failure {
        match error.into() {
            UseCaseError::Store(cause) => Failure::database(&self.database)(cause),
            UseCaseError::Broker(cause) => Failure::Broker(cause),
            // Who writes to the file has every role, and nothing here decides about orders.
            other @ (UseCaseError::NotFound { .. }
            | UseCaseError::NotAllowed { .. }
            | UseCaseError::Order(_)
            | UseCaseError::Product(_)
            | UseCaseError::Payment(_)
            | UseCaseError::Refund(_)
            | UseCaseError::Asset(_)
            | UseCaseError::AssetsNotLocked
            | UseCaseError::KeyTaken
            | UseCaseError::InProgress
            | UseCaseError::NothingHeld) => Failure::Refused(other.to_string()),
        }
    }

    /// The same, where what was named may not be there.
    pub(super) fn failed_to_find(
        &self,
        error: impl Into<UseCaseError>,
        what: String,
        see: &'static str,
    ) -> Failure {
        match error.into() {
            UseCaseError::NotFound { .. } => self.missing(what, see),
            error @ (UseCaseError::NotAllowed { .. }
            | UseCaseError::Order(_)
            | UseCaseError::Product(_)
            | UseCaseError::Payment(_)
            | UseCaseError::Refund(_)
            | UseCaseError::Asset(_)
            | UseCaseError::AssetsNotLocked
            | UseCaseError::KeyTaken
            | UseCaseError::InProgress
            | UseCaseError::NothingHeld
            | UseCaseError::Store(_)
            | UseCaseError::Broker(_)) => self.failed(error),
        }
    }

    /// What was named is not there.
    pub(super) fn missing(&self, what: String, see: &'static str) -> Failure {
        Failure::Missing { what, see, database: self.database.clone() }
    }
}

fn trace_id(app: &App) -> String {
    format!("{:016x}{:016x}", app.tx.chance.next(), app.tx.chance.next())
}

/// The system's user: by name, or by number where there is no name.
fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let named = named.map(|name| name.trim().to_owned()).find(|name| !name.is_empty());
    named.unwrap_or_else(user_id)
}

/// Whose this process is, as far as the system shows it.
fn user_id() -> String {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or_else(|_| "unknown".to_owned(), |process| process.uid().to_string())
}
