//! The command line.

mod dlq;
mod inspect;
mod order;
mod outbox;
mod reconcile;
mod serve;
#[cfg(test)]
mod tests;
mod token;
mod values;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use marketplace_demo::DemoArgs;
use marketplace_wiring::terminal::{Address, Common, OutputArgs};

pub use dlq::{DlqCommand, DlqDiscardArgs, DlqListArgs, DlqReplayArgs, LettersArgs};
pub use inspect::{ConfigCommand, ConfigShowArgs, DoctorArgs, PageArgs, QueuesArgs};
pub use order::{AuditCommand, AuditListArgs, OrderCommand, TimelineArgs};
pub use outbox::{
    OutboxBlockedArgs, OutboxCommand, OutboxListArgs, OutboxRedriveArgs, OutboxReleaseArgs, OutboxShowArgs,
};
pub use reconcile::ReconcileArgs;
pub use serve::{Part, ServeArgs};
pub use token::TokenArgs;

const EXAMPLES: &str = "\
Examples:
  handover                                      serve on 127.0.0.1:8080, orders in ./handover.db
  handover serve --listen 127.0.0.1:0           on any free port; the first line says which
  handover serve --database sqlite:///srv/shop/handover.db
  HANDOVER_HTTP__OPS_LISTEN=127.0.0.1:9090 handover    operators' calls and /metrics on a listener of their own
  HANDOVER_DATABASE__URL=postgres://owner:...@db/shop handover migrate    once; then any number of `serve` (see bootstrap/docs/operations.md)
  handover demo                                 a market day in a minute, and what it proves
  handover token --user 10001 --role user       a token for curl: -H \"Authorization: Bearer ...\"
  handover doctor                               what would keep it from serving, and what to do
  handover outbox list --status failed          events that were given up
  handover outbox redrive --status failed       send them again
  handover order timeline 17                    everything that happened to an order
  handover reconcile --since 24h                whether every event and every effect is there, and no other
  HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES=0.05 handover    unpaid orders are closed after 3 s

Configuration: built-in defaults < handover.toml (or --config) < HANDOVER_SECTION__KEY < flags.
Every key of the file has a variable: dots become two underscores, dashes become underscores
(outbox.scan-interval is HANDOVER_OUTBOX__SCAN_INTERVAL). `handover config show` lists them all.

Answers go to stdout, everything else to stderr.
Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 a dependency is away.";

/// Orders and their events: committed together, delivered, and applied exactly once.
#[derive(Debug, Parser)]
#[command(name = "handover", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; nothing is `serve`.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of `serve`.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and run what runs by itself (the default)
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    /// Bring the database up to date and end; `serve` does so too on SQLite
    Migrate(Common),
    /// Check everything that serving needs, and say what to do about what is missing
    #[command(after_help = inspect::DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Play a market day with everything that goes wrong on one, and prove that no promise was broken
    #[command(after_help = marketplace_demo::HELP)]
    Demo(DemoArgs),
    /// Print a token that signs a user in, and nothing else
    #[command(
        after_help = "Example:\n  curl -H \"Authorization: Bearer $(handover token --user 10001 --role user)\" ..."
    )]
    Token(TokenArgs),
    /// Look at events on their way to the broker, send them once more; also while `serve` runs
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Look at messages that no consumer could do, replay or discard them; also while `serve` runs
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// See what became of an order; also while `serve` runs
    #[command(subcommand)]
    Order(OrderCommand),
    /// Compare orders with their events, those with their effects, and money with the ledger; also while `serve` runs
    #[command(after_help = reconcile::HELP)]
    Reconcile(ReconcileArgs),
    /// See what operators did; also while `serve` runs
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show how full each queue is; also while `serve` runs
    Queues(QueuesArgs),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the OpenAPI document of the API, which `serve` shows at /openapi.json and /docs
    #[command(name = "openapi", after_help = "Example:\n  handover openapi > openapi.json")]
    OpenApi,
    /// Print the AsyncAPI document of the events: exchange, queues, messages and their schemas
    #[command(name = "asyncapi", after_help = "Example:\n  handover asyncapi > asyncapi.json")]
    AsyncApi(Common),
    /// Print a script that completes commands and flags in a shell
    #[command(
        after_help = "Examples:\n  source <(handover completions bash)\n  handover completions fish > ~/.config/fish/completions/handover.fish"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}
