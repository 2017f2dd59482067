//! The commands on an outbox, whatever it is opened from.

use clap::{Args, Subcommand};
use handover_runtime::names::in_own_name;

use crate::access::Access;
use crate::args::{
    ALERTS_HELP, AlertsArgs, AlertsSubcommand, AuditCommand, ConsumptionsArgs, DlqCommand, OutboxCommand,
    QueuesArgs, STATS_HELP, StatsArgs,
};
use crate::commands;

/// The commands on an outbox.
#[derive(Debug, Clone, Subcommand)]
pub enum OperatorCommand<F: Args> {
    /// Inspect events in the outbox and send them again; also while `serve` runs
    #[command(subcommand)]
    Outbox(OutboxCommand<F>),
    /// Inspect, replay or discard messages that their consumer could not process; also while `serve` runs
    #[command(subcommand)]
    Dlq(DlqCommand<F>),
    /// List what consumers did with events, newest first; also while `serve` runs
    Consumptions(ConsumptionsArgs<F>),
    /// Show the audit log of operators' actions; also while `serve` runs
    #[command(subcommand)]
    Audit(AuditCommand<F>),
    /// Show the length of each queue; also while `serve` runs
    Queues(QueuesArgs<F>),
    /// Show statistics of outbox, consumers, queues and alerts; also while `serve` runs
    #[command(after_help = in_own_name(STATS_HELP))]
    Stats(StatsArgs<F>),
    /// Show active alerts, or acknowledge one; also while `serve` runs
    #[command(after_help = in_own_name(ALERTS_HELP))]
    Alerts(AlertsArgs<F>),
    /// Show which consumer takes which event type, in which order and how often
    Topology(QueuesArgs<F>),
}

impl<F: Args> OperatorCommand<F> {
    /// Runs the command on an outbox that is opened from `source`.
    ///
    /// Lines on stderr may still be queued afterwards: call [`flush`](handover_runtime::terminal::flush) before the process
    /// ends.
    pub async fn run<A: Access<Flags = F>>(&self, source: &A::Source) -> Result<(), A::Failure> {
        match self {
            OperatorCommand::Outbox(command) => match command {
                OutboxCommand::List(arguments) => commands::outbox::<A>(source, arguments).await,
                OutboxCommand::Show(arguments) => commands::event::<A>(source, arguments).await,
                OutboxCommand::Redrive(arguments) => commands::redrive::<A>(source, arguments).await,
                OutboxCommand::Blocked(arguments) => commands::blocked::<A>(source, arguments).await,
                OutboxCommand::Release(arguments) => commands::release::<A>(source, arguments).await,
                OutboxCommand::Archive(arguments) => commands::archive::<A>(source, arguments).await,
                OutboxCommand::Restore(arguments) => commands::restore::<A>(source, arguments).await,
            },
            OperatorCommand::Dlq(command) => match command {
                DlqCommand::List(arguments) => commands::dead_letters::<A>(source, arguments).await,
                DlqCommand::Show(arguments) => commands::dead_letter::<A>(source, arguments).await,
                DlqCommand::Replay(arguments) => commands::replay::<A>(source, arguments).await,
                DlqCommand::Discard(arguments) => commands::discard::<A>(source, arguments).await,
            },
            OperatorCommand::Consumptions(arguments) => commands::consumptions::<A>(source, arguments).await,
            OperatorCommand::Audit(AuditCommand::List(arguments)) => {
                commands::audit::<A>(source, arguments).await
            }
            OperatorCommand::Queues(arguments) => commands::queues::<A>(source, arguments).await,
            OperatorCommand::Stats(arguments) => commands::stats::<A>(source, arguments).await,
            OperatorCommand::Alerts(arguments) => match &arguments.command {
                None => commands::alerts::<A>(source, arguments).await,
                Some(AlertsSubcommand::Acknowledge(arguments)) => {
                    commands::acknowledge::<A>(source, arguments).await
                }
            },
            OperatorCommand::Topology(arguments) => commands::topology::<A>(source, arguments).await,
        }
    }
}
