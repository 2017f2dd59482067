//! Arguments of `handover order`.

use clap::{Args, Subcommand};
use handover_events::TenantId;
use marketplace_domain::OrderId;

use super::values::order;
use handover_cli::values::tenant;
use handover_runtime::terminal::{Common, OutputArgs};

const TIMELINE_HELP: &str = "\
Shows in chronological order every change of the order, its events, their publication, and the result of \
each consumer, like the API for operators (GET /api/v1/orders/{id}/timeline).

Example:
  handover order timeline 17";

/// Subcommands of `handover order`.
#[derive(Debug, Clone, Subcommand)]
pub enum OrderCommand {
    /// Show the changes of an order, its events and their effects
    #[command(after_help = TIMELINE_HELP)]
    Timeline(TimelineArgs),
}

/// Arguments of `handover order timeline`.
#[derive(Debug, Clone, Args)]
pub struct TimelineArgs {
    /// The order's id
    #[arg(value_name = "ORDER_ID", value_parser = order)]
    pub order: OrderId,
    /// The order's tenant [default: any]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
