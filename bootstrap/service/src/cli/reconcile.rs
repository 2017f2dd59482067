//! Arguments of `handover reconcile`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use marketplace_domain::FindingState;

use super::values::finding_state;
use handover_cli::args::PageArgs;
use handover_cli::values::{duration, reason, tenant, time, whole};
use handover_runtime::terminal::{Common, OutputArgs};

pub(super) const HELP: &str = "\
Checks every order that changed within the time range: its row, product, payments and refunds, its \
events and their publisher confirms, the consume log and the effects of each consumer, and the ledger, \
like the API for operators (GET /api/v1/ops/reconciliation). Also compares the newest 10,000 products \
with their orders, and searches the newest 100,000 rows of the outbox for values that cannot be read. \
Events in progress are not findings. --repair inserts missing events, sends failed and lost events \
again, applies missing effects, pays or refunds an order whose payment or refund succeeded, and refunds \
captured money that buys nothing. An order without a successful payment gets no effects. Nothing takes \
effect twice, and every repair is recorded in the audit log (`handover audit list`). The findings are \
recorded: `handover reconcile findings` lists those that are open, acknowledged, repaired or resolved.

Exit codes: 0 no findings, or all were repaired; 1 findings remain.

Examples:
  handover reconcile
  handover reconcile --since 2h --repair --reason \"disk replaced\"
  handover reconcile findings --state open
  handover reconcile --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z --output json";

const FINDINGS_HELP: &str = "\
A finding is open until a reconciliation repairs it (repaired), a later reconciliation compares the same rows and does not \
find it (resolved), or an operator acknowledges it. One that is found again is open again, unless it is acknowledged. \
See bootstrap/docs/operations.md, \"Reconciliation\".

Examples:
  handover reconcile findings --state open
  handover reconcile findings acknowledge 12 --reason \"test data, case 4711\"";

/// Arguments of `handover reconcile`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ReconcileArgs {
    /// The subcommand; without one, a reconciliation runs.
    #[command(subcommand)]
    pub command: Option<ReconcileCommand>,
    #[command(flatten)]
    pub run: ReconcileRunArgs,
}

/// Subcommands of `handover reconcile`.
#[derive(Debug, Clone, Subcommand)]
pub enum ReconcileCommand {
    /// List the recorded findings, newest first, or acknowledge an open one
    #[command(after_help = FINDINGS_HELP)]
    Findings(FindingsArgs),
}

/// Arguments of `handover reconcile findings`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct FindingsArgs {
    /// The subcommand; without one, the findings are listed.
    #[command(subcommand)]
    pub command: Option<FindingsCommand>,
    #[command(flatten)]
    pub list: FindingsListArgs,
}

/// Subcommands of `handover reconcile findings`.
#[derive(Debug, Clone, Subcommand)]
pub enum FindingsCommand {
    /// Acknowledge an open finding: it is not counted any more
    Acknowledge(FindingsAcknowledgeArgs),
}

/// Arguments of `handover reconcile findings` without subcommand.
#[derive(Debug, Clone, Args)]
pub struct FindingsListArgs {
    #[command(flatten)]
    pub common: Common,
    /// Only findings in this state: open, acknowledged, repaired, resolved
    #[arg(long, value_name = "STATE", value_parser = finding_state(), hide_possible_values = true)]
    pub state: Option<FindingState>,
    /// Only findings of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover reconcile findings acknowledge`.
#[derive(Debug, Clone, Args)]
pub struct FindingsAcknowledgeArgs {
    /// The finding's id
    #[arg(value_name = "FINDING_ID", value_parser = whole(1..=i64::MAX))]
    pub finding: i64,
    /// Reason, recorded in the finding and in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover reconcile` without subcommand.
#[derive(Debug, Clone, Args)]
pub struct ReconcileRunArgs {
    /// Orders that changed within this time, such as 90m or 7d
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h", conflicts_with_all = ["from", "to"])]
    pub since: Duration,
    /// Orders that changed at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Orders that changed before this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "from")]
    pub to: Option<DateTime<Utc>>,
    /// Only orders of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Repair what can be repaired
    #[arg(long)]
    pub repair: bool,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "repair")]
    pub reason: Option<Reason>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
