//! What the commands that look and change nothing take.

use clap::{Args, Subcommand};

use super::values::{cursor, whole};
use super::{Address, Common, OutputArgs};

pub(super) const DOCTOR_HELP: &str = "\
Each line is ok, warn or fail. Nothing is changed; it may run beside `serve`.
Exit codes: 0 nothing fails, 1 something does, 2 the configuration is wrong and nothing else fails,
3 a dependency is away and nothing else fails.

Example:
  handover doctor --output json | jq '.checks[] | select(.status != \"ok\")'";

/// What `doctor` takes.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Where the API would listen.
    #[command(flatten)]
    pub address: Address,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be done with the configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Every key with its value and where that came from; secrets are hidden
    Show(ConfigShowArgs),
}

/// What `config show` takes.
#[derive(Debug, Clone, Args)]
pub struct ConfigShowArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which page of a list.
#[derive(Debug, Clone, Args)]
pub struct PageArgs {
    /// How many at most, 1 to 1000
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=1000_u32), default_value = "20")]
    pub limit: u32,
    /// Go on where a list ended: its `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    pub cursor: Option<i64>,
}

/// What `queues` takes.
#[derive(Debug, Clone, Args)]
pub struct QueuesArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
