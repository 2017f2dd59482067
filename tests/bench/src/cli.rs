//! The command line.

use std::num::{NonZeroU16, NonZeroU32};

use clap::{Parser, ValueEnum};
use handover_runtime::config::Sources;
use handover_runtime::terminal::{Common, OutputArgs};

const HELP: &str = "\
Every figure is compared with a baseline on the same servers: the same work directly with the
drivers, except for growth and held. The ratio is the cost of ordering, leases, exactly-once and repair.
  orders    the use case; baseline: the same six statements in one transaction
  drain     the relay; baseline: claim a batch, publish it at once, mark it; no ordering or fencing;
            the better of one and two connections
  consume   a consumer; baseline: insert log and effects, commit, one ack for all deliveries
  latency   relay, consumers, jobs; baseline: commit, publish, confirm, deliver, commit
  growth    drain and consume with settled events in the tables; baseline: the same with empty tables
  webhooks  the dispatcher, 50 endpoints; baseline: sign, post, and record each result in a transaction
  chain     orders over HTTP with idempotency keys, until each has its effect, half as many as
            --events; baseline: a server, a relay and a consumer that do the same
  held      drain, consume and chain beside an open transaction; baseline: the same without it
  enqueue   transactions of a service that uses the crate; baseline: the same row inserted by hand

Without --database it creates a database in a temporary folder. A database on a server must have no
tables, queues on RabbitMQ must be missing or empty. Everything created there is dropped at the
end, even after Ctrl-C (not after kill -9: then drop the database and the vhost). During the run
only warnings are logged. The table shows the median of the rounds and their spread, in which other
load on the machine is visible.

Examples:
  handover-bench                                   all modes on SQLite, about eight minutes
  handover-bench drain consume --database postgres://shop@db/bench --broker amqp://shop@mq/bench
  handover-bench orders --clients 8 --seconds 10 --rounds 5
  handover-bench growth --rows 1000000,5000000
  handover-bench --output json | jq '.figures[] | {mode, what, ratio}'";

/// Measurement modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Orders created per second
    Orders,
    /// Drain a backlog of the outbox until every event is confirmed
    Drain,
    /// Consume a backlog of a queue until every message is applied
    Consume,
    /// Time from a commit to its confirm and to its effect
    Latency,
    /// `drain` and `consume` with an increasing number of settled events
    Growth,
    /// Send a backlog of webhooks until the result of each is recorded
    Webhooks,
    /// Place orders over HTTP until the effect of each is applied
    Chain,
    /// `drain`, `consume` and `chain` beside a transaction that stays open
    Held,
    /// Transactions that enqueue an event through the crate `handover`
    Enqueue,
}

impl Mode {
    /// All modes in the order in which they run.
    pub(crate) const ALL: [Mode; 9] = [
        Mode::Orders,
        Mode::Drain,
        Mode::Consume,
        Mode::Latency,
        Mode::Growth,
        Mode::Webhooks,
        Mode::Chain,
        Mode::Held,
        Mode::Enqueue,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Mode::Orders => "orders",
            Mode::Drain => "drain",
            Mode::Consume => "consume",
            Mode::Latency => "latency",
            Mode::Growth => "growth",
            Mode::Webhooks => "webhooks",
            Mode::Chain => "chain",
            Mode::Held => "held",
            Mode::Enqueue => "enqueue",
        }
    }
}

/// Measure the service on a database and a broker, and compare it with a baseline
#[derive(Debug, Clone, Parser)]
#[command(name = "handover-bench", version, after_help = HELP)]
pub struct BenchArgs {
    /// Modes to measure [default: all]
    #[arg(value_enum, value_name = "WHAT")]
    pub modes: Vec<Mode>,
    /// Number of events in a backlog
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000), default_value = "20000")]
    pub events: u32,
    /// Time of a turn in mode `orders` [default: 1.5], of all service turns in mode `latency` together [default: 20]
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Maximum number of rows in a window of the relay
    #[arg(long, value_name = "ROWS", default_value = "500")]
    pub batch: NonZeroU32,
    /// Maximum number of unsettled deliveries of a consumer
    #[arg(long, value_name = "COUNT", default_value = "200")]
    pub prefetch: NonZeroU16,
    /// Numbers of concurrent clients in mode `orders`; each number gives one figure
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000), default_value = "1,8,32")]
    pub clients: Vec<u32>,
    /// Orders placed per second in mode `latency`
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value = "100")]
    pub rate: u32,
    /// Numbers of settled events in mode `growth`; each number gives two figures
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=100_000_000), default_value = "1000000")]
    pub rows: Vec<u64>,
    /// Rounds of each figure; a round measures the service, then the baseline; the median is reported
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100), default_value = "3")]
    pub rounds: u32,
    /// Seed of the random numbers in event ids
    #[arg(long, value_name = "SEED", default_value = "1")]
    pub seed: u64,
    /// Keep the database and the queues that were created
    #[arg(long)]
    pub keep: bool,
    /// The broker: `database:` or amqp://... [default: database:] [env: HANDOVER_BROKER__URL]
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl BenchArgs {
    /// The sources of the configuration, with these flags.
    pub(crate) fn sources(&self) -> Sources {
        self.common.sources(&[("--broker", "broker.url", self.broker.as_ref())])
    }
}
