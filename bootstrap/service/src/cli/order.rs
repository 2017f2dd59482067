//! Arguments of `handover order`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use handover_events::TenantId;
use marketplace_domain::{OrderId, OrderNo, PaymentId, Reference, UserId};

use super::values::{order_no, payment, reference, user};
use handover_cli::args::PageArgs;
use handover_cli::values::tenant;
use handover_runtime::terminal::{Common, OutputArgs};

const TIMELINE_HELP: &str = "\
Shows in chronological order every change of the order, its events, their publication, and the result of \
each consumer, like the API for operators (GET /api/v1/ops/orders/{id}/timeline). The rows fit 120 columns; --wide shows \
all columns, and JSON the full texts.

Examples:
  handover order timeline 17
  handover order timeline 202602041030000000000017";

const SHOW_HELP: &str = "\
Shows the order with its payments and refunds, and its deadline: the time when it is cancelled if nobody pays it, or \
completed if its buyer does not.

Examples:
  handover order show 17
  handover order show 202602041030000000000017";

const FIND_HELP: &str = "\
Examples:
  handover order find --number 202602041030000000000017
  handover order find --buyer 10001
  handover order find --transaction txn-4711";

/// Subcommands of `handover order`.
#[derive(Debug, Clone, Subcommand)]
pub enum OrderCommand {
    /// Show the changes of an order, its events and their effects
    #[command(after_help = TIMELINE_HELP)]
    Timeline(TimelineArgs),
    /// Show an order with its payments, refunds and deadline
    #[command(after_help = SHOW_HELP)]
    Show(OrderShowArgs),
    /// Find orders by number, buyer, payment, reference or gateway transaction
    #[command(after_help = FIND_HELP)]
    Find(OrderFindArgs),
}

/// Names one order.
#[derive(Debug, Clone)]
pub enum OrderName {
    Id(OrderId),
    Number(OrderNo),
}

impl FromStr for OrderName {
    type Err = String;

    fn from_str(text: &str) -> Result<OrderName, String> {
        let id = text.parse().map(OrderName::Id);
        id.or_else(|_| text.parse().map(OrderName::Number))
            .map_err(|_| "must be an order id, or an order number: 24 digits".to_owned())
    }
}

/// Arguments of `handover order timeline`.
#[derive(Debug, Clone, Args)]
pub struct TimelineArgs {
    /// The order's id or number
    #[arg(value_name = "ORDER")]
    pub order: OrderName,
    /// The order's tenant [default: any]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Show all columns
    #[arg(long)]
    pub wide: bool,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover order show`.
#[derive(Debug, Clone, Args)]
pub struct OrderShowArgs {
    /// The order's id or number
    #[arg(value_name = "ORDER")]
    pub order: OrderName,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `handover order find`.
#[derive(Debug, Clone, Args)]
pub struct OrderFindArgs {
    #[command(flatten)]
    pub search: OrderSearchArgs,
    /// Only orders of this tenant [default: any; with --buyer: 1]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The value that a search compares.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct OrderSearchArgs {
    /// The order with this number
    #[arg(long, value_name = "ORDER_NO", value_parser = order_no)]
    pub number: Option<OrderNo>,
    /// Orders of this buyer
    #[arg(long, value_name = "USER_ID", value_parser = user)]
    pub buyer: Option<UserId>,
    /// The order of this payment
    #[arg(long, value_name = "PAYMENT_ID", value_parser = payment)]
    pub payment: Option<PaymentId>,
    /// The order of the payment or refund with this reference
    #[arg(long, value_name = "UUID", value_parser = reference)]
    pub reference: Option<Reference>,
    /// The order that this transaction of the gateway paid
    #[arg(long, value_name = "TRANSACTION_ID")]
    pub transaction: Option<String>,
}
