//! What `dlq` takes.

use clap::{Args, Subcommand};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use handover_outbox::ports::DeadLetterStatus;

use super::values::{cursor, letter_status, reason, tenant, whole};
use super::{Common, OutputArgs};

const REPLAY_HELP: &str = "\
Each goes back to the consumer it died at and to no other, with its attempts counted anew; a `serve` \
beside it takes it up within a second or so. One that dies again is open again. What is no event of \
ours cannot be replayed: discard it. At most 900 by name or the oldest 1,000 by filter. Exit code 1: \
some were not replayed, and the answer says which and why.

Examples:
  handover dlq replay --queue inventory.update.queue --dry-run
  handover dlq replay 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --reason \"the address is mended\"
  handover dlq replay --all";

const DISCARD_HELP: &str = "\
They stay where they are, closed and with the reason, and take no effect, also those that are being \
replayed; one whose event was applied meanwhile is closed as replayed. At most 900 by name or the \
oldest 1,000 by filter. Exit code 1: some were not discarded, and the answer says which and why.

Example:
  handover dlq discard 0f4a9c1be27d8356 --reason \"a test message of the neighbours\"";

/// What can be done with dead letters.
#[derive(Debug, Clone, Subcommand)]
pub enum DlqCommand {
    /// Dead letters with their reasons, newest first
    List(DlqListArgs),
    /// Send dead letters back to the consumers they died at
    #[command(after_help = REPLAY_HELP)]
    Replay(DlqReplayArgs),
    /// Give dead letters up
    #[command(after_help = DISCARD_HELP)]
    Discard(DlqDiscardArgs),
}

/// What `dlq list` takes.
#[derive(Debug, Clone, Args)]
pub struct DlqListArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Only those that died in this queue, such as inventory.update.queue
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Only those of this type, such as ORDER_CREATED
    #[arg(long, value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only those in this status: open, replaying, replayed, discarded
    #[arg(long, value_name = "STATUS", value_parser = letter_status)]
    pub status: Option<DeadLetterStatus>,
    /// Only those of this marketplace [default: all]
    #[arg(long, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// How many at most, 1 to 10000
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=10_000_u32), default_value = "20")]
    pub limit: u32,
    /// Go on where a list ended: its `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    pub cursor: Option<i64>,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which dead letters.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub struct LettersArgs {
    /// The letters, by their keys; or name a filter
    #[arg(value_name = "KEY", group = "which", conflicts_with_all = ["event_type", "tenant", "all"])]
    pub keys: Vec<String>,
    /// Those that died in this queue; also narrows named ones
    #[arg(long, value_name = "QUEUE", group = "which")]
    pub queue: Option<String>,
    /// Those of this type, such as ORDER_CREATED
    #[arg(long, value_name = "TYPE", group = "which")]
    pub event_type: Option<String>,
    /// Those of this marketplace
    #[arg(long, value_name = "ID", group = "which", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// All that nobody decided about
    #[arg(long, group = "which", conflicts_with_all = ["queue", "event_type", "tenant"])]
    pub all: bool,
    /// Say what would happen, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What `dlq replay` takes.
#[derive(Debug, Clone, Args)]
pub struct DlqReplayArgs {
    /// Which letters.
    #[command(flatten)]
    pub letters: LettersArgs,
    /// Why; it is kept in the audit log and with the letter
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `dlq discard` takes.
#[derive(Debug, Clone, Args)]
pub struct DlqDiscardArgs {
    /// Which letters.
    #[command(flatten)]
    pub letters: LettersArgs,
    /// Why; it is kept in the audit log and with the letter
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
