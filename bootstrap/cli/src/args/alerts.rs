//! Arguments of `alerts` and `stats`.

use std::time::Duration;

use clap::{Args, Subcommand};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use handover_runtime::terminal::OutputArgs;

use crate::values::{duration, reason, tenant};

pub(crate) const ALERTS_HELP: &str = "\
The process that leads evaluates the alerts every `metrics.state-interval`, and their limits are the settings `alerts.*`. \
Each alert has a section in the runbook: its meaning, what to do, and when it ends.

Examples:
  handover alerts
  handover alerts --all --output json | jq -r '.items[] | \"\\(.alert) \\(.limit)\"'
  handover alerts acknowledge queue-depth --for 2h --reason \"the ERP is under maintenance\"";

pub(crate) const STATS_HELP: &str = "\
Figures of the last minutes are those of all running processes. With --since: the mean and the highest value of each \
state metric over time; samples of one minute are kept for 24 hours, of ten minutes for 14 days. Before the first \
minute has ended, the present figures are shown.

Examples:
  handover stats
  handover stats --since 6h
  handover stats --since 7d --metric outbox_event_pending --output json";

/// Arguments of `alerts`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AlertsArgs<F: Args> {
    /// What to do; without it, the alerts are listed.
    #[command(subcommand)]
    pub command: Option<AlertsSubcommand<F>>,
    /// Also alerts that are not active
    #[arg(long)]
    pub all: bool,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Subcommands of `alerts`.
#[derive(Debug, Clone, Subcommand)]
pub enum AlertsSubcommand<F: Args> {
    /// Acknowledge an alert until a time: it stays active, but nobody is notified
    Acknowledge(AcknowledgeArgs<F>),
}

/// Arguments of `alerts acknowledge`.
#[derive(Debug, Clone, Args)]
pub struct AcknowledgeArgs<F: Args> {
    /// Name of the alert, such as queue-depth
    #[arg(value_name = "ALERT")]
    pub alert: String,
    /// Time for which nobody is notified: 30m, 2h, 3d
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Duration,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `stats`.
#[derive(Debug, Clone, Args)]
pub struct StatsArgs<F: Args> {
    /// Show the time since: 30m, 6h, 7d, instead of the present
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub since: Option<Duration>,
    /// With --since: only this metric, as it is exported
    #[arg(long, value_name = "NAME", requires = "since")]
    pub metric: Option<String>,
    /// Only rows of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant, conflicts_with = "since")]
    pub tenant: Option<TenantId>,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}
