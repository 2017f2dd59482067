//! Arguments of `handover invoice`.

use clap::{Args, Subcommand};
use handover_cli::args::PageArgs;
use handover_cli::values::{reason, tenant};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use handover_runtime::terminal::{Common, OutputArgs};
use marketplace_domain::{BillingPeriod, InvoiceId, InvoiceStatus, PaymentMethod};

use super::values::{invoice, invoice_status, payment_method, period};

const GENERATE_HELP: &str = "\
The job of a running `serve` generates the invoices of each month `invoice.generate-after` (3 days) after its end. This \
command is for a month before `invoice.from`, or to have an invoice earlier. If the invoice exists, it is shown.

Example:
  handover invoice generate --period 2026-02 --tenant 7";

const PAY_HELP: &str = "\
The gateway reports the result of the payment, named by its reference. A payment in progress is shown and not started again.

Example:
  handover invoice pay 17 --method bank-transfer";

const REFUND_HELP: &str = "\
A running `serve` with the role `jobs` sends the refund to the gateway, which reports its result. A refund in progress is shown \
and not requested again.

Example:
  handover invoice refund 17 --reason 'billed twice, see ticket 4711'";

/// Subcommands of `handover invoice`.
#[derive(Debug, Clone, Subcommand)]
pub enum InvoiceCommand {
    /// List the invoices of all tenants, newest first
    #[command(after_help = "Example:\n  handover invoice list --status pending")]
    List(InvoiceListArgs),
    /// Show an invoice with its payments, its refunds and its lines: the fee of each order
    #[command(after_help = "Example:\n  handover invoice show 17 --limit 100")]
    Show(InvoiceShowArgs),
    /// Show the events of an invoice, of its payments and of its refunds, and their effects
    #[command(after_help = "Example:\n  handover invoice timeline 17")]
    Timeline(InvoiceTimelineArgs),
    /// Generate the invoice of a tenant for a month that has ended
    #[command(after_help = GENERATE_HELP)]
    Generate(InvoiceGenerateArgs),
    /// Start the payment of a pending invoice at the gateway
    #[command(after_help = PAY_HELP)]
    Pay(InvoicePayArgs),
    /// Refund a paid invoice through the gateway
    #[command(after_help = REFUND_HELP)]
    Refund(InvoiceRefundArgs),
}

/// Arguments of `handover invoice list`.
#[derive(Debug, Clone, Args)]
pub struct InvoiceListArgs {
    #[command(flatten)]
    pub common: Common,
    /// Only invoices with this status: pending, paid, refunded
    #[arg(long, value_name = "STATUS", value_parser = invoice_status(), hide_possible_values = true)]
    pub status: Option<InvoiceStatus>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover invoice show`.
#[derive(Debug, Clone, Args)]
pub struct InvoiceShowArgs {
    /// The invoice's id
    #[arg(value_name = "INVOICE_ID", value_parser = invoice)]
    pub invoice: InvoiceId,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover invoice timeline`.
#[derive(Debug, Clone, Args)]
pub struct InvoiceTimelineArgs {
    /// The invoice's id
    #[arg(value_name = "INVOICE_ID", value_parser = invoice)]
    pub invoice: InvoiceId,
    /// Show all columns
    #[arg(long)]
    pub wide: bool,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover invoice generate`.
#[derive(Debug, Clone, Args)]
pub struct InvoiceGenerateArgs {
    /// The month, in UTC
    #[arg(long, value_name = "YYYY-MM", value_parser = period)]
    pub period: BillingPeriod,
    /// The tenant [default: 1]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover invoice pay`.
#[derive(Debug, Clone, Args)]
pub struct InvoicePayArgs {
    /// The invoice's id
    #[arg(value_name = "INVOICE_ID", value_parser = invoice)]
    pub invoice: InvoiceId,
    /// Payment method: online, card, wallet, alipay, wechat, bank-transfer [default: online]
    #[arg(long, value_name = "METHOD", value_parser = payment_method(), hide_possible_values = true)]
    pub method: Option<PaymentMethod>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover invoice refund`.
#[derive(Debug, Clone, Args)]
pub struct InvoiceRefundArgs {
    /// The invoice's id
    #[arg(value_name = "INVOICE_ID", value_parser = invoice)]
    pub invoice: InvoiceId,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
