//! What `bench` takes.

use std::num::{NonZeroU16, NonZeroU32};

use clap::{Args, ValueEnum};

use super::{Common, OutputArgs};

pub(super) const HELP: &str = "";

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
}

/// What `bench` takes.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// What is measured [default: all]
    #[arg(value_enum, value_name = "WHAT")]
    pub modes: Vec<BenchMode>,
    /// Events of a backlog
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000), default_value = "20000")]
    pub events: u32,
    /// How long a turn of `orders`, and `latency`, last
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Rows in a window of the relay
    #[arg(long, value_name = "ROWS", default_value = "500")]
    pub batch: NonZeroU32,
    /// Unsettled deliveries of a consumer
    #[arg(long, value_name = "COUNT", default_value = "200")]
    pub prefetch: NonZeroU16,
    /// Clients of `orders`
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,8,32")]
    pub clients: Vec<u32>,
    /// Orders a second of `latency`
    #[arg(long, value_name = "COUNT", default_value = "100")]
    pub rate: u32,
    /// Sent rows of `growth`
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "0,1000000")]
    pub rows: Vec<u64>,
    /// How often each figure is taken
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub rounds: u32,
    /// Keeps what was made
    #[arg(long)]
    pub keep: bool,
    /// Broker
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    /// Where.
    #[command(flatten)]
    pub common: Common,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
