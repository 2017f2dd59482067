//! What `bench` takes.

use std::num::{NonZeroU16, NonZeroU32};

use clap::{Parser, ValueEnum};
use handover::cli::{Common, OutputArgs};
use handover::config::Sources;

const HELP: &str = "\
Every figure stands beside a ceiling: the same work by the plainest code that can do it, on the
same servers, by turns; the ratio is what order, leases, exactly-once and repair cost.
  orders    the use case; ceiling: the same six statements in a bare transaction
  drain     the relay; ceiling: claim a batch, publish it at once, mark it; no order, no fence
  consume   a consumer; ceiling: insert into log and effects, commit, one ack for what is there
  latency   relay, consumers, jobs; ceiling: commit, publish, confirm, take, commit, nothing else
  growth    drain with sent rows in the table; ceiling: drain with an empty one

Without --database it makes a database in a temporary folder. A database on a server has to be
without tables, queues on RabbitMQ have to be missing or empty; what bench makes there it drops at
the end, also after Ctrl-C (not after kill -9: then drop the database and the vhost). Meanwhile
only warnings are logged. The table tells the median of the rounds and how far they lie apart: a
machine that does something else at the same time shows there.

Examples:
  handover-bench                                   all of it on SQLite, about two minutes
  handover-bench drain consume --database postgres://shop@db/bench --broker amqp://shop@mq/bench
  handover-bench orders --clients 8 --seconds 10 --rounds 5
  handover-bench growth --rows 1000000,5000000
  handover-bench --output json | jq '.figures[] | {mode, what, ratio}'";

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchMode {
    /// Orders created per second
    Orders,
    /// A backlog of the outbox until every event is confirmed
    Drain,
    /// A backlog of a queue until every message is applied
    Consume,
    /// From a commit to its confirm and to its effect
    Latency,
    /// `drain` with ever more sent rows in the table
    Growth,
}

impl BenchMode {
    /// All of them, in the order in which they run.
    pub const ALL: [BenchMode; 5] =
        [BenchMode::Orders, BenchMode::Drain, BenchMode::Consume, BenchMode::Latency, BenchMode::Growth];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            BenchMode::Orders => "orders",
            BenchMode::Drain => "drain",
            BenchMode::Consume => "consume",
            BenchMode::Latency => "latency",
            BenchMode::Growth => "growth",
        }
    }
}

/// Measure how fast this database and this broker are with this service, and how fast they could be
#[derive(Debug, Clone, Parser)]
#[command(name = "handover-bench", version, after_help = HELP)]
pub struct BenchArgs {
    /// What is measured [default: all of it]
    #[arg(value_enum, value_name = "WHAT")]
    pub modes: Vec<BenchMode>,
    /// Events of a backlog
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000), default_value = "20000")]
    pub events: u32,
    /// How long a turn of `orders` lasts [default: 1.5], and all turns of `latency` [default: 20]
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Rows in a window of the relay
    #[arg(long, value_name = "ROWS", default_value = "500")]
    pub batch: NonZeroU32,
    /// Unsettled deliveries of a consumer
    #[arg(long, value_name = "COUNT", default_value = "200")]
    pub prefetch: NonZeroU16,
    /// Clients of `orders`, a figure each
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000), default_value = "1,8,32")]
    pub clients: Vec<u32>,
    /// Orders a second of `latency`
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value = "100")]
    pub rate: u32,
    /// Sent rows of `growth`, a figure each
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=100_000_000), default_value = "1000000")]
    pub rows: Vec<u64>,
    /// How often each figure is taken, ours and the ceiling by turns; the median counts
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100), default_value = "3")]
    pub rounds: u32,
    /// Where the numbers in event ids begin
    #[arg(long, value_name = "SEED", default_value = "1")]
    pub seed: u64,
    /// Keeps what was made
    #[arg(long)]
    pub keep: bool,
    /// What carries the events: `database:` or amqp://... [default: database:] [env: HANDOVER_BROKER__URL]
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl BenchArgs {
    /// Where its configuration is.
    pub(crate) fn sources(&self) -> Sources {
        self.common.sources(&[("--broker", "broker.url", self.broker.as_ref())])
    }
}
