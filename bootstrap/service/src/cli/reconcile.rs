//! Arguments of `handover reconcile`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use handover_events::TenantId;
use handover_outbox::operations::Reason;

use handover_cli::values::{duration, reason, tenant, time};
use handover_runtime::terminal::{Common, OutputArgs};

pub(super) const HELP: &str = "\
Checks every order that changed within the time range: its row, product, payments and refunds, its \
events and their publisher confirms, the consume log and the effects of each consumer, and the ledger, \
like the API for operators (GET /api/v1/ops/reconciliation). Also compares the newest 10,000 products \
with their orders, and searches the newest 100,000 rows of the outbox for values that cannot be read. \
Events in progress are not findings. --repair inserts missing events, sends failed and lost events \
again, applies missing effects, pays or refunds an order whose payment or refund succeeded, and refunds \
captured money that buys nothing. An order without a successful payment gets no effects. Nothing takes \
effect twice, and every repair is recorded in the audit log (`handover audit list`).

Exit codes: 0 no findings, or all were repaired; 1 findings remain.

Examples:
  handover reconcile
  handover reconcile --since 2h --repair --reason \"disk replaced\"
  handover reconcile --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z --output json";

/// Arguments of `handover reconcile`.
#[derive(Debug, Clone, Args)]
pub struct ReconcileArgs {
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
