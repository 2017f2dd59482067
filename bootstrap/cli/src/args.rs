//! Arguments of the commands. `F` are the flags with which a program selects its outbox.

mod alerts;
mod dlq;
#[cfg(feature = "program")]
mod listen;
mod outbox;
#[cfg(feature = "program")]
mod program;
mod webhook;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use handover_events::{ConsumeStatus, EventId, TenantId};
use handover_runtime::terminal::OutputArgs;

use crate::values::{consume_status, cursor, event, tenant, time, whole};

pub(crate) use alerts::{ALERTS_HELP, STATS_HELP};
pub use alerts::{AcknowledgeArgs, AlertsArgs, AlertsSubcommand, StatsArgs};
pub use dlq::{DeadLetterArgs, DlqCommand, DlqDiscardArgs, DlqListArgs, DlqReplayArgs, DlqShowArgs};
#[cfg(feature = "program")]
pub use listen::WebhookListenArgs;
pub use outbox::{
    EventFilterArgs, OutboxArchiveArgs, OutboxBlockedArgs, OutboxCommand, OutboxListArgs, OutboxRedriveArgs,
    OutboxReleaseArgs, OutboxRestoreArgs, OutboxShowArgs,
};
#[cfg(feature = "program")]
pub(crate) use program::{BACKUP_HELP, DOCTOR_HELP, MIGRATE_HELP};
#[cfg(feature = "program")]
pub use program::{BackupArgs, ConfigCommand, ConfigShowArgs, DoctorArgs, MigrateArgs};
pub use webhook::{
    EndpointArgs, Removable, WebhookCommand, WebhookCreateArgs, WebhookDeliveriesArgs, WebhookDisableArgs,
    WebhookEndpointArgs, WebhookListArgs, WebhookRecoverArgs, WebhookRedeliverArgs, WebhookRotateKeyArgs,
    WebhookRotateSecretArgs, WebhookTestArgs, WebhookUpdateArgs,
};

/// Page of a list.
#[derive(Debug, Clone, Args)]
pub struct PageArgs {
    /// Maximum number of rows, 1 to 1000
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=1000_u32), default_value = "20")]
    pub limit: u32,
    /// Continue after the page that returned this `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    pub cursor: Option<i64>,
}

/// Period of a list.
#[derive(Debug, Clone, Copy, Args)]
pub struct PeriodArgs {
    /// Only rows of this time or later, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Only rows from before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<DateTime<Utc>>,
}

/// Arguments of `consumptions`.
#[derive(Debug, Clone, Args)]
pub struct ConsumptionsArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Only records of this event
    #[arg(long, value_name = "EVENT_ID", value_parser = event)]
    pub event_id: Option<EventId>,
    /// Only records of this consumer, such as webhooks
    #[arg(long, value_name = "CONSUMER")]
    pub consumer: Option<String>,
    /// Only records in this status: processing, waiting, success, failed, dead
    #[arg(long, value_name = "STATUS", value_parser = consume_status(), hide_possible_values = true)]
    pub status: Option<ConsumeStatus>,
    /// Only records of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Period of the last change.
    #[command(flatten)]
    pub period: PeriodArgs,
    /// Page of the list.
    #[command(flatten)]
    pub page: PageArgs,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `queues` and `topology`.
#[derive(Debug, Clone, Args)]
pub struct QueuesArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Subcommands of `audit`.
#[derive(Debug, Clone, Subcommand)]
pub enum AuditCommand<F: Args> {
    /// List operators' actions, newest first
    List(AuditListArgs<F>),
}

/// Arguments of `audit list`.
#[derive(Debug, Clone, Args)]
pub struct AuditListArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Only actions on rows of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Only changes, without reads and dry runs
    #[arg(long)]
    pub changes: bool,
    /// Period of the calls.
    #[command(flatten)]
    pub period: PeriodArgs,
    /// Page of the list.
    #[command(flatten)]
    pub page: PageArgs,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}
