//! What `outbox` takes.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use handover_events::{EventId, OutboxStatus, TenantId};
use handover_outbox::operations::{Pace, Reason};

use super::values::{cursor, event, pace, reason, status, tenant, time, whole};
use super::{Common, OutputArgs, PageArgs};

const LIST_HELP: &str = "\
Newest first, as the API shows them (GET /api/v1/ops/outbox).

Examples:
  handover outbox list --status failed
  handover outbox list --event-type ORDER_CREATED --aggregate-id 17
  handover outbox list --output json | jq -r '.items[].eventId'";

const REDRIVE_HELP: &str = "\
Failed events again, or sent ones once more: their consumers ignore what they have done. Those that \
are on their way are left alone. At most 900 by name or the oldest 10,000 by filter; they fall due \
by --per-second in order of their ids. A `serve` that runs beside it notices within \
`outbox.scan-interval`. What is done is in `handover audit list`.

Examples:
  handover outbox redrive --status failed --dry-run
  handover outbox redrive --event-type ORDER_PAID --reason \"the queue is bound again\"
  handover outbox redrive --status sent --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z
  handover outbox redrive 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5";

const BLOCKED_HELP: &str = "\
An event waits for its time (TIME, until) or for a decision about a failed one before it (DECISION): \
send that again with `handover outbox redrive`, or let the later events pass it with `handover outbox \
release`. With `outbox.on-failed = \"continue\"`, the default, no event waits for a decision.

Example:
  handover outbox blocked --output json | jq -r '.items[] | \"\\(.aggregateType) \\(.aggregateId)\"'";

const RELEASE_HELP: &str = "\
With `outbox.on-failed = \"continue\"`, the default, nothing is held and nothing is released. The failed \
events stay failed, and can be redriven later.

Example:
  handover outbox release Order 17 --reason \"refunded by hand\"";

/// What can be done with the outbox.
#[derive(Debug, Clone, Subcommand)]
pub enum OutboxCommand {
    /// Its events, newest first
    #[command(after_help = LIST_HELP)]
    List(OutboxListArgs),
    /// One event with its payload
    Show(OutboxShowArgs),
    /// Send events once more
    #[command(after_help = REDRIVE_HELP)]
    Redrive(OutboxRedriveArgs),
    /// Orders, payments, ... whose next event waits, and what for
    #[command(after_help = BLOCKED_HELP)]
    Blocked(OutboxBlockedArgs),
    /// Let the later events of an order, payment, ... pass its failed ones
    #[command(after_help = RELEASE_HELP)]
    Release(OutboxReleaseArgs),
}

/// What `outbox list` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxListArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Only those in this status: new, retry, sent, failed
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Option<OutboxStatus>,
    /// Only those of this type, such as ORDER_CREATED
    #[arg(long, value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only those about this order, payment, ...
    #[arg(long, value_name = "ID", value_parser = whole(i64::MIN..=i64::MAX), allow_negative_numbers = true)]
    pub aggregate_id: Option<i64>,
    /// Only those of this marketplace [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Which page.
    #[command(flatten)]
    pub page: PageArgs,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `outbox show` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxShowArgs {
    /// The event's id
    #[arg(value_name = "EVENT_ID", value_parser = event)]
    pub event_id: EventId,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `outbox redrive` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxRedriveArgs {
    /// The events, by their ids; or name a filter
    #[arg(value_name = "EVENT_ID", value_parser = event, conflicts_with_all = ["status", "event_type", "aggregate_id", "tenant", "from", "to"])]
    pub events: Vec<EventId>,
    /// Those in this status: failed (where no status is given), sent
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Option<OutboxStatus>,
    /// Those of this type, such as ORDER_CREATED
    #[arg(long, value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Those about this order, payment, ...
    #[arg(long, value_name = "ID", value_parser = whole(i64::MIN..=i64::MAX), allow_negative_numbers = true)]
    pub aggregate_id: Option<i64>,
    /// Those of this marketplace
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Those that happened at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Those that happened before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<DateTime<Utc>>,
    /// Go on where an earlier redrive ended: its `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    pub cursor: Option<i64>,
    /// Say what would happen, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How many fall due a second, 1 to 10000
    #[arg(long, value_name = "COUNT", value_parser = pace, default_value = "100")]
    pub per_second: Pace,
    /// Why; it is kept in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `outbox blocked` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxBlockedArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Only those of this marketplace [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Which page.
    #[command(flatten)]
    pub page: PageArgs,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `outbox release` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxReleaseArgs {
    /// What the events are about: Order, Payment, ...
    #[arg(value_name = "TYPE")]
    pub aggregate_type: String,
    /// Its id
    #[arg(value_name = "ID", value_parser = whole(i64::MIN..=i64::MAX), allow_negative_numbers = true)]
    pub aggregate_id: i64,
    /// The marketplace
    #[arg(long, value_name = "ID", value_parser = tenant, default_value = "1")]
    pub tenant: TenantId,
    /// Why; it is kept in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
