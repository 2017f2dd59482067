//! Arguments of the commands.

mod dlq;
mod outbox;

use clap::{Args, Subcommand};
use handover_events::TenantId;
use handover_runtime::terminal::{Address, Common, OutputArgs};

use crate::values::{cursor, tenant, whole};

pub use dlq::{DeadLetterArgs, DlqCommand, DlqDiscardArgs, DlqListArgs, DlqReplayArgs};
pub use outbox::{
    OutboxBlockedArgs, OutboxCommand, OutboxListArgs, OutboxRedriveArgs, OutboxReleaseArgs, OutboxShowArgs,
};

pub(crate) const DOCTOR_HELP: &str = "\
Each check is ok, warn or fail. Nothing is changed; `doctor` can run while `serve` runs.
Exit codes: 0 no check failed, 1 a check failed, 2 only configuration checks failed,
3 only checks of dependencies failed, because they are unavailable.

Example:
  handover doctor --output json | jq '.checks[] | select(.status != \"ok\")'";

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Address flag.
    #[command(flatten)]
    pub address: Address,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

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

/// Arguments of `queues`.
#[derive(Debug, Clone, Args)]
pub struct QueuesArgs {
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Subcommands of `audit`.
#[derive(Debug, Clone, Subcommand)]
pub enum AuditCommand {
    /// List operators' actions, newest first
    List(AuditListArgs),
}

/// Arguments of `audit list`.
#[derive(Debug, Clone, Args)]
pub struct AuditListArgs {
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Only actions on rows of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Only changes, without reads and dry runs
    #[arg(long)]
    pub changes: bool,
    /// Page of the list.
    #[command(flatten)]
    pub page: PageArgs,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Subcommands of `config`.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Show every key with its value and origin; secrets are hidden
    Show(ConfigShowArgs),
}

/// Arguments of `config show`.
#[derive(Debug, Clone, Args)]
pub struct ConfigShowArgs {
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}
