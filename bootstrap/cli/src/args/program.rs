//! Arguments of the commands that need a configuration.

use clap::{Args, Subcommand};
use handover_runtime::terminal::{Address, Common, OutputArgs};

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
