//! Arguments of `handover config`.

use clap::{Args, Subcommand};
use handover_runtime::terminal::{Common, OutputArgs};

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
