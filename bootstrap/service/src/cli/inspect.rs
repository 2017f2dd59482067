//! Arguments of `doctor`, `config` and `queues`, and of paged lists.

use clap::{Args, Subcommand};

use super::values::{cursor, whole};
use super::{Address, Common, OutputArgs};

pub(super) const DOCTOR_HELP: &str = "\
Each check is ok, warn or fail. Nothing is changed; `doctor` can run while `serve` runs.
Exit codes: 0 no check failed, 1 a check failed, 2 only configuration checks failed,
3 only checks of dependencies failed, because they are unavailable.

Example:
  handover doctor --output json | jq '.checks[] | select(.status != \"ok\")'";

/// Arguments of `handover doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub address: Address,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Subcommands of `handover config`.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Show every key with its value and origin; secrets are hidden
    Show(ConfigShowArgs),
}

/// Arguments of `handover config show`.
#[derive(Debug, Clone, Args)]
pub struct ConfigShowArgs {
    #[command(flatten)]
    pub common: Common,
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

/// Arguments of `handover queues`.
#[derive(Debug, Clone, Args)]
pub struct QueuesArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
