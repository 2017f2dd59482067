//! Operator for the marketplace's commands: runs the API's operator use cases directly on the database, also while a
//! process serves it. A user with write access to the database counts as an operator with every role.

use std::sync::Arc;

use handover_cli::{Reach, Session, UnrecordedReads, user};
use handover_runtime::Failure;
use handover_runtime::terminal::Common;
use marketplace::{Actor, App, CommandContext};
use marketplace_wiring::adapters::application_for_command;
use marketplace_wiring::settings::Config;

/// An operator with direct access to the database.
pub(super) struct Operator {
    pub(super) session: Session<Config>,
    pub(super) app: App,
    pub(super) context: CommandContext,
    /// Says which reads are not in the audit log.
    _unrecorded: UnrecordedReads,
}

impl Operator {
    /// Opens the configured database, if its schema is current.
    pub(super) async fn open(common: &Common) -> Result<Operator, Failure> {
        let session: Session<Config> = Session::open(common, Reach::Store).await?;
        let broker = Arc::clone(&session.outbox.broker);
        let app = application_for_command(&session.config, &session.database, broker)?;
        let context = CommandContext {
            actor: Actor::CommandLine(user()),
            tenant: session.operator.tenant,
            trace: session.operator.trace.clone(),
            request_id: None,
        };
        let _unrecorded = UnrecordedReads::of(&app.tx);
        Ok(Operator { session, app, context, _unrecorded })
    }
}
