//! Arguments of `dlq`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use handover_outbox::ports::DeadLetterStatus;
use handover_runtime::names::in_own_name;
use handover_runtime::terminal::OutputArgs;

use super::PeriodArgs;
use crate::values::{cursor, dead_letter_status, duration, reason, tenant, time, whole};

const REPLAY_HELP: &str = "\
Each dead letter is sent only to the consumer that failed, and its attempts start from 0; a running \
`serve` processes it within about a second. If it fails again, the dead letter is open again. Messages that are not \
events of this service cannot be replayed: discard them. One call replays at most 900 dead letters by key, or \
the oldest 1,000 by filter. The command waits until their consumers have finished, at most for the time of --wait, and lists \
each result: APPLIED, DEAD if the consumer failed permanently again, or QUEUED. Exit code 1: some were not replayed or \
are dead again; the output lists them with the reason.

Examples:
  handover dlq replay --queue library.reminders --dry-run
  handover dlq replay 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --reason \"address corrected\"
  handover dlq replay --all";

const DISCARD_HELP: &str = "\
Discarded dead letters stay in the table with the reason, and their events take no effect later. While a \
dead letter is being replayed, it can be discarded until its consumer begins to apply the event. If the \
event was applied in the meantime, the dead letter is closed as replayed instead. One call discards at most \
900 dead letters by key, or the oldest 1,000 by filter. Exit code 1: some were not discarded; the output \
lists them with the reason.

Example:
  handover dlq discard 0f4a9c1be27d8356 --reason \"test message of another team\"";

/// Subcommands of `dlq`.
#[derive(Debug, Clone, Subcommand)]
pub enum DlqCommand<F: Args> {
    /// List dead letters with their reasons, newest first
    List(DlqListArgs<F>),
    /// Show the dead letters with a key, with their messages and reasons
    Show(DlqShowArgs<F>),
    /// Send dead letters to their consumers again
    #[command(after_help = in_own_name(REPLAY_HELP))]
    Replay(DlqReplayArgs<F>),
    /// Discard dead letters: their events take no effect later
    #[command(after_help = in_own_name(DISCARD_HELP))]
    Discard(DlqDiscardArgs<F>),
}

/// Arguments of `dlq list`.
#[derive(Debug, Clone, Args)]
pub struct DlqListArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Only dead letters of this queue, such as library.reminders
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Only events of this type, such as BOOK_LENT
    #[arg(long, value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only dead letters in this status: open, replaying, replayed, discarded
    #[arg(long, value_name = "STATUS", value_parser = dead_letter_status(), hide_possible_values = true)]
    pub status: Option<DeadLetterStatus>,
    /// Only rows of this tenant [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Period of the last failure.
    #[command(flatten)]
    pub period: PeriodArgs,
    /// Maximum number of rows, 1 to 10000
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=10_000_u32), default_value = "20")]
    pub limit: u32,
    /// Continue after the page that returned this `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    pub cursor: Option<i64>,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `dlq show`.
#[derive(Debug, Clone, Args)]
pub struct DlqShowArgs<F: Args> {
    /// The key: the event's id, or the hash of an unknown message
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Only the dead letter of this queue [default: of every queue]
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Selection of dead letters.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub struct DeadLetterArgs {
    /// Keys of the dead letters; or use a filter
    #[arg(value_name = "KEY", group = "which", conflicts_with_all = ["event_type", "tenant", "from", "to", "all"])]
    pub keys: Vec<String>,
    /// Dead letters of this queue; can be combined with keys
    #[arg(long, value_name = "QUEUE", group = "which")]
    pub queue: Option<String>,
    /// Dead letters of this event type, such as BOOK_LENT
    #[arg(long, value_name = "TYPE", group = "which")]
    pub event_type: Option<String>,
    /// Dead letters of this tenant
    #[arg(long, value_name = "ID", group = "which", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Dead letters that failed last at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", group = "which", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Dead letters that failed last before this time
    #[arg(long, value_name = "TIME", group = "which", value_parser = time)]
    pub to: Option<DateTime<Utc>>,
    /// All dead letters that are open or being replayed
    #[arg(long, group = "which", conflicts_with_all = ["queue", "event_type", "tenant", "from", "to"])]
    pub all: bool,
    /// Show what would happen without changing anything
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `dlq replay`.
#[derive(Debug, Clone, Args)]
pub struct DlqReplayArgs<F: Args> {
    /// Selection of dead letters.
    #[command(flatten)]
    pub dead_letters: DeadLetterArgs,
    /// Reason, recorded in the audit log and in the dead letter
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// Longest wait for the results, such as 1m; 0s: no wait
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub wait: Duration,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `dlq discard`.
#[derive(Debug, Clone, Args)]
pub struct DlqDiscardArgs<F: Args> {
    /// Selection of dead letters.
    #[command(flatten)]
    pub dead_letters: DeadLetterArgs,
    /// Reason, recorded in the audit log and in the dead letter
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}
