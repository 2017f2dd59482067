//! Arguments of `handover refund`.

use clap::{Args, Subcommand};
use handover_outbox::operations::Reason;
use marketplace_domain::{RefundId, RefundStatus};

use super::values::{refund, refund_status};
use handover_cli::args::PageArgs;
use handover_cli::values::reason;
use handover_runtime::terminal::{Common, OutputArgs};

const RETRY_HELP: &str = "\
A failed refund begins a new attempt with its own reference, which is its idempotency key at the gateway; a running \
`serve` sends it within about a second. The next request of a refund that is being processed becomes due at once, with \
the same reference, so the gateway does not pay twice; so does that of a refund that was stopped after it had been \
sent, until the gateway has reported its result. Before a retry, make sure at the gateway that the failed \
attempt has not paid.

Example:
  handover refund retry 17 --reason \"the gateway has corrected the account\"";

const SETTLE_HELP: &str = "\
Records that the money was returned by other means, for example by bank transfer: the refund succeeds, and its order \
is refunded. It is not sent to the gateway any more; later reports of the gateway about it need a decision.

Example:
  handover refund settle 17 --reason \"paid by bank transfer 4711\"";

/// Subcommands of `handover refund`.
#[derive(Debug, Clone, Subcommand)]
pub enum RefundCommand {
    /// List refunds with their attempts and errors, newest first
    #[command(after_help = "Example:\n  handover refund list --state failed")]
    List(RefundListArgs),
    /// Show one refund
    Show(RefundShowArgs),
    /// Send a refund to the gateway again
    #[command(after_help = RETRY_HELP)]
    Retry(RefundDecisionArgs),
    /// Record that the money of a refund was returned by other means
    #[command(after_help = SETTLE_HELP)]
    Settle(RefundDecisionArgs),
}

/// Arguments of `handover refund list`.
#[derive(Debug, Clone, Args)]
pub struct RefundListArgs {
    #[command(flatten)]
    pub common: Common,
    /// Only refunds in this state: processing, success, failed
    #[arg(long, value_name = "STATE", value_parser = refund_status(), hide_possible_values = true)]
    pub state: Option<RefundStatus>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover refund show`.
#[derive(Debug, Clone, Args)]
pub struct RefundShowArgs {
    /// The refund's id
    #[arg(value_name = "REFUND_ID", value_parser = refund)]
    pub refund: RefundId,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover refund retry` and `handover refund settle`.
#[derive(Debug, Clone, Args)]
pub struct RefundDecisionArgs {
    /// The refund's id
    #[arg(value_name = "REFUND_ID", value_parser = refund)]
    pub refund: RefundId,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
