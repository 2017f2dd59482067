//! What `reconcile` takes.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use handover_events::TenantId;
use handover_outbox::operations::Reason;

use super::values::{duration, reason, tenant, time};
use super::{Common, OutputArgs};

pub(super) const HELP: &str = "\
Every order that changed within the time, from its row over its events and their confirms to what each \
consumer recorded and left behind, and the ledger beside it; as the API shows it to operators (GET \
/api/v1/ops/reconciliation). What is on its way is no finding. With --repair a missing event is \
announced, one that was given up or lost is sent again, an effect that is gone is applied again; nothing \
takes effect twice, and what was done is in `handover audit list`.

Exit codes: 0 all is sound, or was mended; 1 something is not.

Examples:
  handover reconcile
  handover reconcile --since 2h --repair --reason \"the disk is back\"
  handover reconcile --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z --output json | jq .findings";

/// What `reconcile` takes.
#[derive(Debug, Clone, Args)]
pub struct ReconcileArgs {
    /// Orders that changed within this time, such as 90m or 7d
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h", conflicts_with_all = ["from", "to"])]
    pub since: Duration,
    /// Orders that changed at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// And before this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "from")]
    pub to: Option<DateTime<Utc>>,
    /// Only those of this marketplace [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Mend what can be mended
    #[arg(long)]
    pub repair: bool,
    /// Why; the audit log keeps it
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "repair")]
    pub reason: Option<Reason>,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
