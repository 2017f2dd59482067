//! What `order` and `audit` take.

use clap::{Args, Subcommand};
use handover_events::TenantId;
use marketplace_domain::OrderId;

use super::values::{order, tenant};
use super::{Common, OutputArgs, PageArgs};

const TIMELINE_HELP: &str = "\
Every change of the order, its events, their way through the broker, and what each consumer made of \
them, in order of time; as the API shows it to operators (GET /api/v1/orders/{id}/timeline).

Example:
  handover order timeline 17";

/// What can be asked about an order.
#[derive(Debug, Clone, Subcommand)]
pub enum OrderCommand {
    /// Everything that happened to an order
    #[command(after_help = TIMELINE_HELP)]
    Timeline(TimelineArgs),
}

/// What `order timeline` takes.
#[derive(Debug, Clone, Args)]
pub struct TimelineArgs {
    /// The order's id
    #[arg(value_name = "ORDER_ID", value_parser = order)]
    pub order: OrderId,
    /// Its marketplace [default: whichever has it]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be asked about what operators did.
#[derive(Debug, Clone, Subcommand)]
pub enum AuditCommand {
    /// What operators did, newest first
    List(AuditListArgs),
}

/// What `audit list` takes.
#[derive(Debug, Clone, Args)]
pub struct AuditListArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Only what is about this marketplace [default: of all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Only what changed something, without looks and dry runs
    #[arg(long)]
    pub changes: bool,
    /// Which page.
    #[command(flatten)]
    pub page: PageArgs,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
