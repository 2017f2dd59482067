//! Command-line arguments of `demo`.

use clap::Args;

use marketplace_wiring::terminal::{OutputArgs, whole};

/// Text that `demo --help` prints after the flags.
pub const HELP: &str = "\
Starts a service in a temporary folder on a free port and trades through its real HTTP API; reads no
configuration and changes no other files. Buyers pay, cancel or never pay; every third order uses
coupons, wallet balance or points that operators granted, and some of these use more than the buyer has;
some orders are refunded, and late payments are refunded automatically. 64 buyers order one lamp at once,
every tenth message is delivered twice, the broker is unreachable for three seconds, and one message
is corrupted. Then the demo compares every database row with the guarantees and with the responses
that clients received: for example, the ledger sums to zero, every hold is resolved, and refunds equal
the captured amounts.

Examples:
  handover demo --orders 2000
  handover demo --seed 42                  repeat the day of this seed
  handover demo --keep                     keep the service running to inspect it
  handover demo --output json | jq '.promises[] | select(.kept | not)'

Exit codes: 0 every promise was kept, 1 a promise was broken (named on stderr), 2 usage.";

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Number of orders, 10 to 20000
    #[arg(long, value_name = "COUNT", value_parser = whole(10..=20_000_u32), default_value = "200")]
    pub orders: u32,
    /// Seed of the random decisions; repeats the day of that seed [default: random, printed at the start]
    #[arg(long, value_name = "SEED", value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Keep the folder and keep the service running until it is stopped
    #[arg(long)]
    pub keep: bool,
    /// Output format.
    #[command(flatten)]
    pub output: OutputArgs,
}
