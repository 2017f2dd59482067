//! The commands of the program.

use clap::Subcommand;
use clap_complete::Shell;
use handover_cli::args::WebhookCommand;
use handover_runtime::terminal::Common;
use marketplace_demo::DemoArgs;

use super::erase::{self, EraseArgs};
use super::invoice::InvoiceCommand;
use super::order::OrderCommand;
use super::payment::PaymentCommand;
use super::reconcile::{self, ReconcileArgs};
use super::refund::RefundCommand;
use super::serve::ServeArgs;
use super::token::TokenArgs;

pub(super) const EXAMPLES: &str = "\
Examples:
  handover                                      serve on 127.0.0.1:8080, database in ./handover.db
  handover serve --listen 127.0.0.1:0           any free port; the first line of output shows it
  handover serve --database sqlite:///srv/shop/handover.db
  HANDOVER_HTTP__OPS_LISTEN=127.0.0.1:9090 handover
                                                separate listener for operators and /metrics
  HANDOVER_METRICS__LISTEN=127.0.0.1:9091 handover serve --roles relay,consumers,jobs
                                                a process without an API, with /metrics
  HANDOVER_DATABASE__URL=postgres://owner:...@db/shop handover migrate
                                                once; then start any number of `serve`
                                                (see bootstrap/docs/operations.md)
  handover demo                                 simulate a market day and verify every promise
  handover token --user 10001 --role user       a token for curl: -H \"Authorization: Bearer ...\"
  handover backup shop-monday.db                consistent copy of the database file
  handover doctor                               check what `serve` needs
  handover outbox list --status failed          events that could not be published
  handover outbox redrive --status failed       send them again
  handover order show 17                        an order with its payments, refunds and deadline
  handover order timeline 17                    the history of an order
  handover payment show 17                      a payment and what the gateway reported about it
  handover reconcile --since 24h                find missing and duplicate events and effects
  HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES=0.05 handover
                                                close unpaid orders after 3 s

Configuration: built-in defaults < handover.toml (or --config) < HANDOVER_SECTION__KEY < flags.
Every key has an environment variable: a dot becomes two underscores, a dash becomes one
(outbox.scan-interval is HANDOVER_OUTBOX__SCAN_INTERVAL). `handover config show` lists all keys.

Results go to stdout, everything else to stderr.
Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 a dependency is unavailable.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and run relay, consumers and jobs (the default)
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    #[command(flatten)]
    Toolkit(handover_cli::Command),
    /// Simulate a market day with failures, and verify that every promise is kept
    #[command(after_help = marketplace_demo::HELP)]
    Demo(DemoArgs),
    /// Print a token (JWT) for a user
    #[command(
        after_help = "How to replace the secret that signs tokens: bootstrap/docs/secrets.md.\n\nExample:\n  curl -H \"Authorization: Bearer $(handover token --user 10001 --role user)\" ..."
    )]
    Token(TokenArgs),
    /// Find orders, and show an order or its history; also while `serve` runs
    #[command(subcommand)]
    Order(OrderCommand),
    /// Inspect payments and the reports of the payment gateway, and close those that needed a decision; also while `serve` runs
    #[command(subcommand)]
    Payment(PaymentCommand),
    /// Inspect refunds, send them to the gateway again, or settle them by hand; also while `serve` runs
    #[command(subcommand)]
    Refund(RefundCommand),
    /// Inspect the monthly invoices of tenants, and generate one; also while `serve` runs
    #[command(subcommand)]
    Invoice(InvoiceCommand),
    /// Manage endpoints of other systems that get events, and their deliveries; also while `serve` runs
    #[command(subcommand)]
    Webhook(WebhookCommand<Common>),
    /// Compare orders, events, effects and the ledger, and repair differences on request; also while `serve` runs
    #[command(after_help = reconcile::HELP)]
    Reconcile(ReconcileArgs),
    /// Mask the texts that a user wrote, or that describe the user; also while `serve` runs
    #[command(after_help = erase::HELP)]
    Erase(EraseArgs),
    /// Print the OpenAPI document of the API, which `serve` publishes at /openapi.json and /docs
    #[command(name = "openapi", after_help = "Example:\n  handover openapi > openapi.json")]
    OpenApi,
    /// Print the AsyncAPI document of the events: exchange, queues, messages and their schemas
    #[command(name = "asyncapi", after_help = "Example:\n  handover asyncapi > asyncapi.json")]
    AsyncApi(Common),
    /// Print a shell completion script
    #[command(
        after_help = "Examples:\n  source <(handover completions bash)\n  handover completions fish > ~/.config/fish/completions/handover.fish"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}
