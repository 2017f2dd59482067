//! Arguments of `outbox`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Arg, Args, Subcommand};
use handover_events::{AggregateId, EventId, OutboxStatus, TenantId};
use handover_outbox::operations::{Reason, RedriveRate};
use handover_outbox::ports::OutboxFilter;
use handover_runtime::names::in_own_name;
use handover_runtime::terminal::OutputArgs;

use super::PageArgs;
use crate::values::{
    aggregate_id, aggregate_key, cursor, event, pace, reason, retention, status, tenant, time, whole,
};

const LIST_HELP: &str = "\
Newest first, like the operators' route GET /outbox.

Examples:
  handover outbox list --status failed
  handover outbox list --oldest --limit 1
  handover outbox list --event-type BOOK_LENT --aggregate-id 17
  handover outbox list --archived --aggregate-type Book --aggregate-id 17
  handover outbox list --output json | jq -r '.items[].eventId'";

const REDRIVE_HELP: &str = "\
Sends FAILED or SENT events again; consumers ignore events that they have applied. Events in status \
NEW or RETRY are skipped. One call sends at most 900 events by id, or the oldest 10,000 by filter. SENT events \
without an aggregate id are searched 100,000 ids at a time until some match; the output says with which --cursor to \
continue. They become due at the rate of --per-second, oldest first; a running `serve` publishes a due event within \
`outbox.scan-interval`. The action is recorded in the audit log (`handover audit list`).

Examples:
  handover outbox redrive --status failed --dry-run
  handover outbox redrive --event-type BOOK_RETURNED --reason \"the queue is bound again\"
  handover outbox redrive --status sent --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z
  handover outbox redrive 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5";

const BLOCKED_HELP: &str = "\
The column waitsFor shows why an event waits. TIME: it waits for its next attempt (column until). \
DECISION: an earlier event is FAILED. Send the FAILED event again with `handover outbox redrive`, or let \
later events pass it with `handover outbox release`. With `outbox.on-failed = \"continue\"`, the default, \
no event waits for a decision.

Example:
  handover outbox blocked --output json | jq -r '.items[] | \"\\(.aggregateType) \\(.aggregateId)\"'";

const RELEASE_HELP: &str = "\
Needed only with `outbox.on-failed = \"hold\"`. The failed events stay FAILED and can be redriven later. \
With `outbox.on-failed = \"continue\"`, the default, no event is blocked, and the command fails.

Example:
  handover outbox release Book 17 --reason \"returned manually\"";

const ARCHIVE_HELP: &str = "\
Needs `archive.url`. One call archives about 1,000 of the events that every consumer has settled and whose retention time \
`archive.after` is over; `more` in its output says whether to call it again. Events that stay are counted by the reason. \
With --dry-run, nothing is changed, at most the oldest 50,000 rows are examined, `more` says whether there are others, and \
`bytes` is the size before compression. The action is recorded in the audit log.

Examples:
  handover outbox archive --dry-run
  handover outbox archive --older-than 7d --output json";

const RESTORE_HELP: &str = "\
Needs `archive.url`. The events return with all their values, and can be shown and redriven again. They are archived \
again when `archive.after` has passed since the restore. The action is recorded in the audit log.

Examples:
  handover outbox restore --event 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --reason \"the reader asked\"
  handover outbox restore --aggregate Book 17 --reason \"the reader asked\"
  handover outbox restore --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z --reason lost";

/// Subcommands of `outbox`.
#[derive(Debug, Clone, Subcommand)]
pub enum OutboxCommand<F: Args> {
    /// List events, newest first
    #[command(after_help = in_own_name(LIST_HELP))]
    List(OutboxListArgs<F>),
    /// Show one event with its payload, also from the archive
    Show(OutboxShowArgs<F>),
    /// Send FAILED or SENT events again
    #[command(after_help = in_own_name(REDRIVE_HELP))]
    Redrive(OutboxRedriveArgs<F>),
    /// List books, readers, ... whose next event waits, with the reason
    #[command(after_help = in_own_name(BLOCKED_HELP))]
    Blocked(OutboxBlockedArgs<F>),
    /// Release a book, reader, ...: its FAILED events no longer block later ones
    #[command(after_help = in_own_name(RELEASE_HELP))]
    Release(OutboxReleaseArgs<F>),
    /// Move settled events to the archive
    #[command(after_help = in_own_name(ARCHIVE_HELP))]
    Archive(OutboxArchiveArgs<F>),
    /// Return archived events to the outbox
    #[command(after_help = in_own_name(RESTORE_HELP))]
    Restore(OutboxRestoreArgs<F>),
}

/// Filter of events. The events that have all these values are selected.
#[derive(Debug, Clone, Args)]
pub struct EventFilterArgs {
    /// Only events in this status: new, retry, sent, failed
    #[arg(long, value_name = "STATUS", value_parser = status(), hide_possible_values = true)]
    pub status: Option<OutboxStatus>,
    /// Only events of this type, such as BOOK_LENT
    #[arg(long, value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only events about books, readers, ...: Book, Reader, ...
    #[arg(long, value_name = "TYPE")]
    pub aggregate_type: Option<String>,
    /// Only events about the book, reader, ... with this id
    #[arg(long, value_name = "ID", value_parser = whole(i64::MIN..=i64::MAX), allow_negative_numbers = true)]
    pub aggregate_id: Option<i64>,
    /// Only events about the aggregate with this text key, such as a UUID
    #[arg(long, value_name = "KEY", value_parser = aggregate_key, conflicts_with = "aggregate_id")]
    pub aggregate_key: Option<AggregateId>,
    /// Only events of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Only events that occurred at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Only events that occurred before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<DateTime<Utc>>,
}

impl EventFilterArgs {
    /// The names of the arguments.
    const NAMES: [&str; 8] =
        ["status", "event_type", "aggregate_type", "aggregate_id", "aggregate_key", "tenant", "from", "to"];

    pub(crate) fn into_filter(self) -> OutboxFilter {
        OutboxFilter {
            tenant: self.tenant,
            status: self.status,
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_key.or(self.aggregate_id.map(AggregateId::from)),
            from: self.from,
            to: self.to,
            ..OutboxFilter::default()
        }
    }
}

/// Arguments of `outbox list`.
#[derive(Debug, Clone, Args)]
pub struct OutboxListArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Filter of the events.
    #[command(flatten)]
    pub filter: EventFilterArgs,
    /// Oldest first; without --status, only events that are not published: new, retry, failed
    #[arg(long)]
    pub oldest: bool,
    /// Only events in the archive, without their content
    #[arg(long, conflicts_with_all = ["status", "oldest"])]
    pub archived: bool,
    /// Page of the list.
    #[command(flatten)]
    pub page: PageArgs,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `outbox show`.
#[derive(Debug, Clone, Args)]
pub struct OutboxShowArgs<F: Args> {
    /// The event's id
    #[arg(value_name = "EVENT_ID", value_parser = event)]
    pub event_id: EventId,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The filter of `outbox redrive` selects events in two statuses only.
fn with_redriven_status(argument: Arg) -> Arg {
    if argument.get_id() != "status" {
        return argument;
    }
    argument.help("Only events in this status: failed (if no status is given) or sent")
}

/// Arguments of `outbox redrive`.
#[derive(Debug, Clone, Args)]
#[command(mut_args(with_redriven_status))]
pub struct OutboxRedriveArgs<F: Args> {
    /// Ids of the events; or use a filter
    #[arg(value_name = "EVENT_ID", value_parser = event, conflicts_with_all = EventFilterArgs::NAMES)]
    pub events: Vec<EventId>,
    /// Filter of the events.
    #[command(flatten)]
    pub filter: EventFilterArgs,
    /// Continue after the redrive that returned this `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    pub cursor: Option<i64>,
    /// Show what would happen without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Number of events that become due per second, 1 to 10000
    #[arg(long, value_name = "COUNT", value_parser = pace, default_value = "100")]
    pub per_second: RedriveRate,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `outbox blocked`.
#[derive(Debug, Clone, Args)]
pub struct OutboxBlockedArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Only rows of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Page of the list.
    #[command(flatten)]
    pub page: PageArgs,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `outbox release`.
#[derive(Debug, Clone, Args)]
pub struct OutboxReleaseArgs<F: Args> {
    /// Aggregate type: Book, Reader, ...
    #[arg(value_name = "TYPE")]
    pub aggregate_type: String,
    /// Aggregate id: an integer, or a text key; a text key that looks like an integer in double quotes: '"5"'
    #[arg(value_name = "ID", value_parser = aggregate_id, allow_negative_numbers = true)]
    pub aggregate_id: AggregateId,
    /// The tenant
    #[arg(long, value_name = "ID", value_parser = tenant, default_value = "1")]
    pub tenant: TenantId,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `outbox archive`.
#[derive(Debug, Clone, Args)]
pub struct OutboxArchiveArgs<F: Args> {
    /// Archive events that were confirmed this long ago, such as 7d [default: `archive.after`]
    #[arg(long, value_name = "DURATION", value_parser = retention)]
    pub older_than: Option<Duration>,
    /// Show what would happen without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `outbox restore`.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("selection").required(true).args(["event", "aggregate", "from"]))]
pub struct OutboxRestoreArgs<F: Args> {
    /// Id of an event; may be repeated
    #[arg(long, value_name = "EVENT_ID", value_parser = event)]
    pub event: Vec<EventId>,
    /// Type and id of a book, reader, ...: all its events
    #[arg(long, num_args = 2, value_names = ["TYPE", "ID"], allow_negative_numbers = true)]
    pub aggregate: Vec<String>,
    /// The tenant of the aggregate
    #[arg(long, value_name = "ID", value_parser = tenant, default_value = "1")]
    pub tenant: TenantId,
    /// Events that occurred at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time, requires = "to")]
    pub from: Option<DateTime<Utc>>,
    /// Events that occurred before this time
    #[arg(long, value_name = "TIME", value_parser = time, requires = "from")]
    pub to: Option<DateTime<Utc>>,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}
