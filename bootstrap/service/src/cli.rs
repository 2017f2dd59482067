//! The command line.

mod command;
mod erase;
mod in_order;
mod invoice;
mod order;
mod payment;
mod reconcile;
mod refund;
mod serve;
#[cfg(test)]
mod tests;
mod token;
mod values;

use clap::Parser;

pub use command::Command;
pub use erase::EraseArgs;
pub use in_order::InOrder;
pub use invoice::{
    InvoiceCommand, InvoiceGenerateArgs, InvoiceListArgs, InvoicePayArgs, InvoiceRefundArgs, InvoiceShowArgs,
    InvoiceTimelineArgs,
};
pub use order::{OrderCommand, OrderFindArgs, OrderName, OrderSearchArgs, OrderShowArgs, TimelineArgs};
pub use payment::{
    PaymentCommand, PaymentListArgs, PaymentShowArgs, ReportsArgs, ReportsCloseArgs, ReportsCommand,
    ReportsListArgs,
};
pub use reconcile::{
    FindingsAcknowledgeArgs, FindingsArgs, FindingsCommand, FindingsListArgs, ReconcileArgs,
    ReconcileCommand, ReconcileRunArgs,
};
pub use refund::{RefundCommand, RefundDecisionArgs, RefundListArgs, RefundShowArgs};
pub use serve::ServeArgs;
pub use token::TokenArgs;

use command::EXAMPLES;

/// Marketplace order service: orders and their events are committed together, and every event is applied exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "handover",
    version,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    mut_arg("database", in_order::in_own_words)
)]
pub struct Cli {
    /// The command; `serve` if none is given.
    #[command(subcommand)]
    pub command: Option<InOrder>,
    #[command(flatten)]
    pub serve: ServeArgs,
}
