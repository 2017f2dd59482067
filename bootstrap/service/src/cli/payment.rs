//! Arguments of `handover payment`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use marketplace_domain::{PaymentId, PaymentStatus, ReportState};

use super::values::{payment, payment_status, report_state};
use handover_cli::args::PageArgs;
use handover_cli::values::{reason, tenant, time, whole};
use handover_runtime::terminal::{Common, OutputArgs};

const REPORTS_HELP: &str = "\
Every report of the payment gateway with a valid signature is recorded, with what was done because of it. A report \
that needs a decision is open until an operator closes it; see bootstrap/docs/operations.md, \"Gateway reports\".

Examples:
  handover payment reports --state open
  handover payment reports close 12 --reason \"refunded at the gateway, case 4711\"";

/// Subcommands of `handover payment`.
#[derive(Debug, Clone, Subcommand)]
pub enum PaymentCommand {
    /// List payments, newest first
    #[command(after_help = "Example:\n  handover payment list --state failed")]
    List(PaymentListArgs),
    /// Show one payment, the deadline of its order, and what the gateway reported about it
    #[command(after_help = "Example:\n  handover payment show 17")]
    Show(PaymentShowArgs),
    /// List the reports of the payment gateway, newest first, or close an open one
    #[command(after_help = REPORTS_HELP)]
    Reports(ReportsArgs),
}

/// Arguments of `handover payment list`.
#[derive(Debug, Clone, Args)]
pub struct PaymentListArgs {
    #[command(flatten)]
    pub common: Common,
    /// Only payments in this state: processing, success, failed
    #[arg(long, value_name = "STATE", value_parser = payment_status(), hide_possible_values = true)]
    pub state: Option<PaymentStatus>,
    /// Only payments of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover payment show`.
#[derive(Debug, Clone, Args)]
pub struct PaymentShowArgs {
    /// The payment's id
    #[arg(value_name = "PAYMENT_ID", value_parser = payment)]
    pub payment: PaymentId,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover payment reports`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ReportsArgs {
    /// The subcommand; without one, the reports are listed.
    #[command(subcommand)]
    pub command: Option<ReportsCommand>,
    #[command(flatten)]
    pub list: ReportsListArgs,
}

/// Subcommands of `handover payment reports`.
#[derive(Debug, Clone, Subcommand)]
pub enum ReportsCommand {
    /// Close an open report
    Close(ReportsCloseArgs),
}

/// Arguments of `handover payment reports` without subcommand.
#[derive(Debug, Clone, Args)]
pub struct ReportsListArgs {
    #[command(flatten)]
    pub common: Common,
    /// Only reports in this state: open, done, closed
    #[arg(long, value_name = "STATE", value_parser = report_state(), hide_possible_values = true)]
    pub state: Option<ReportState>,
    /// Only reports at or after this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Only reports before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<DateTime<Utc>>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover payment reports close`.
#[derive(Debug, Clone, Args)]
pub struct ReportsCloseArgs {
    /// The report's id
    #[arg(value_name = "REPORT_ID", value_parser = whole(1..=i64::MAX))]
    pub report: i64,
    /// Reason, recorded in the report and in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
