//! Command-line arguments of `demo`.

use clap::Args;

use handover_runtime::terminal::{OutputArgs, whole};

/// Text that `demo --help` prints after the flags.
pub const HELP: &str = "\
The demo starts a service in a temporary folder on a free port and trades through its HTTP API. It reads no \
configuration and changes no other files. Buyers pay, cancel or never pay. About a third of the orders use \
coupons, wallet balance or points that an operator granted, and some of these use more than the buyer has. \
Some orders are refunded, and late payments are refunded automatically. 64 buyers order one lamp at once, \
every tenth delivery is duplicated, the broker is unreachable for three seconds, and one message is \
corrupted. Two past months with completed orders are invoiced; one invoice is paid, the other one is paid and \
refunded. Then the demo compares the database with the guarantees and with the responses that clients \
received: for example, the ledger sums to zero, every hold is resolved, and refunds equal the captured \
amounts.

Examples:
  handover demo --orders 2000
  handover demo --seed 42                  use the plan of this seed again
  handover demo --keep                     keep the service running to inspect it
  handover demo --output json | jq '.promises[] | select(.kept | not)'

Exit codes: 0 every promise was kept; 1 a promise was broken (named on stderr), or the demo failed or was \
interrupted; 2 usage.";

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Number of orders, 10 to 20000
    #[arg(long, value_name = "COUNT", value_parser = whole(10..=20_000_u32), default_value = "200")]
    pub orders: u32,
    /// Seed of the plan: the same seed and number of orders give the same plan [default: random, printed at the start]
    #[arg(long, value_name = "SEED", value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Keep the folder and keep the service running until it is stopped
    #[arg(long)]
    pub keep: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}
