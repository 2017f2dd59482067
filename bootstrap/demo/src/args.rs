//! What `demo` takes.

use clap::Args;

use marketplace_wiring::terminal::{OutputArgs, whole};

/// What `demo --help` says after the flags.
pub const HELP: &str = "\
Plays the day against the real HTTP API of a service of its own, in a temporary folder and on a free
port; no configuration is read and nothing of yours is touched. Buyers pay, cancel and forget to pay,
every third pays with coupons, wallet and points that operators gave, some with more than they have;
some want their money back, some payments come too late and are paid back by themselves. 64 buyers
want one lamp at once, every tenth message is delivered twice, the broker is out of reach for three
seconds, one message is spoiled on its way. Then every row in the database is held against what was
promised, and against what each client was told: the ledger sums to zero, every hold is resolved,
refunds are what was captured.

Examples:
  handover demo --orders 2000
  handover demo --seed 42                  the same day again
  handover demo --keep                     and go on serving, to look around
  handover demo --output json | jq '.promises[] | select(.kept | not)'

Exit codes: 0 every promise was kept, 1 one was broken (stderr names it), 2 usage.";

/// What `demo` takes.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// How many orders, 10 to 20000
    #[arg(long, value_name = "COUNT", value_parser = whole(10..=20_000_u32), default_value = "200")]
    pub orders: u32,
    /// Plays the day of this seed again [default: another one each time, which is printed]
    #[arg(long, value_name = "SEED", value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Keeps the folder, and goes on serving until it is stopped
    #[arg(long)]
    pub keep: bool,
    /// How it is written.
    #[command(flatten)]
    pub output: OutputArgs,
}
