//! What the commands that look and change nothing take.

use clap::{Args, Subcommand, ValueEnum};
use handover_domain::{EventId, OutboxStatus, TenantId};

use super::{Address, Common};

pub(super) const DOCTOR_HELP: &str = "\
Each line is ok, warn or fail. Nothing is changed; it may run beside `serve`.
Exit codes: 0 nothing fails, 1 something does, 3 a dependency is away and nothing else fails.

Example:
  handover doctor --output json | jq '.checks[] | select(.status != \"ok\")'";

const LIST_HELP: &str = "\
Newest first, as the API shows them (GET /api/v1/ops/outbox).

Examples:
  handover outbox list --status failed
  handover outbox list --event-type ORDER_CREATED --aggregate-id 17
  handover outbox list --output json | jq -r '.items[].eventId'";

/// How an answer is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns; with lines between them on a terminal
    #[default]
    Table,
    /// JSON, with the field names of the API
    Json,
}

/// How the answer is written.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// How the answer is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

/// What `doctor` takes.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Where the API would listen.
    #[command(flatten)]
    pub address: Address,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be done with the configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Every key with its value and where that came from; secrets are hidden
    Show(ConfigShowArgs),
}

/// What `config show` takes.
#[derive(Debug, Clone, Args)]
pub struct ConfigShowArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be done with the outbox.
#[derive(Debug, Clone, Subcommand)]
pub enum OutboxCommand {
    /// Its events, newest first
    #[command(after_help = LIST_HELP)]
    List(OutboxListArgs),
    /// One event with its payload
    Show(OutboxShowArgs),
}

/// What `outbox list` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxListArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Only those in this status: new, retry, sent, failed
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    pub status: Option<OutboxStatus>,
    /// Only those of this type, such as ORDER_CREATED
    #[arg(long, value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only those about this order, payment, ...
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub aggregate_id: Option<i64>,
    /// Only those of this marketplace [default: all]
    #[arg(long, value_name = "ID", value_parser = parse_tenant)]
    pub tenant: Option<TenantId>,
    /// How many at most, 1 to 1000
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000), default_value = "20")]
    pub limit: u32,
    /// Go on where a list ended: its `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = clap::value_parser!(i64).range(1..))]
    pub cursor: Option<i64>,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `outbox show` takes.
#[derive(Debug, Clone, Args)]
pub struct OutboxShowArgs {
    /// The event's id
    #[arg(value_name = "EVENT_ID", value_parser = parse_event)]
    pub event_id: EventId,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be done with dead letters.
#[derive(Debug, Clone, Subcommand)]
pub enum DlqCommand {
    /// Dead letters with their reasons, oldest first
    List(DlqListArgs),
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
    /// How many at most, 1 to 10000
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value = "20")]
    pub limit: u32,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `queues` takes.
#[derive(Debug, Clone, Args)]
pub struct QueuesArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn parse_status(name: &str) -> Result<OutboxStatus, String> {
    name.to_ascii_uppercase().parse().map_err(|_| "known are new, retry, sent, failed".to_owned())
}

fn parse_tenant(text: &str) -> Result<TenantId, String> {
    text.parse().map_err(|error: handover_domain::IdError| error.to_string())
}

fn parse_event(text: &str) -> Result<EventId, String> {
    text.parse().map_err(|error: handover_domain::IdError| error.to_string())
}
