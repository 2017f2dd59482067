//! Arguments of `webhook`.

use std::fmt;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use handover_outbox::ports::{DeliveryState, EndpointId};
use handover_outbox::webhooks::{MAX_IN_FLIGHT, MAX_OVERLAP_HOURS, MAX_PER_SECOND};
use handover_runtime::names::in_own_name;
use handover_runtime::terminal::OutputArgs;

use super::PageArgs;
use crate::values::{cursor, delivery_state, endpoint, header, lines_of_file, reason, tenant, time, whole};

const CREATE_HELP: &str = "\
The output shows the secret of the endpoint, once: the receiver verifies requests with it. Event types are \
names (book.lent), all with a prefix ('book.*'), or '*'.

Examples:
  handover webhook create --url https://erp.example/hooks --types 'book.*'
  handover webhook create --url https://erp.example/v1 --types book.lent --header 'x-shop: 17'
  handover webhook create --url https://erp.example/v2 --types book.lent --header-file headers.txt";

const UPDATE_HELP: &str = "\
What is not named stays as it is. Deliveries that are waiting are sent to the new URL.

Examples:
  handover webhook update 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --url https://erp.example/v2
  handover webhook update 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --remove per-second
  handover webhook update 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --ordered=false";

const ROTATE_SECRET_HELP: &str = "\
Requests are signed with both secrets for the time of the overlap. The rotation of all secrets: the page about secrets in the documentation.";

const ROTATE_KEY_HELP: &str = "\
Encrypts the secrets of all endpoints with `webhook.key`; those that were encrypted with \
`webhook.previous-key` are read with that key. Run it after the keys were changed in every process, then \
remove `webhook.previous-key`. The rotation of all secrets: the page about secrets in the documentation.";

const RECOVER_HELP: &str = "\
Sends the DEAD deliveries again that were written in the period, at most 10,000 per call. With \
--include-missing, events of the period that the endpoint asks for and has no delivery of are delivered as well: \
the command searches 100,000 ids of the outbox at a time until it finds events, and the output says with which \
--cursor to continue. Events in the archive are not delivered: restore them first (`handover outbox restore`).

Example:
  handover webhook recover 01a1fc2a-39e5-7c52-8e76-1112ea42c1a5 --since 2026-01-31T08:00:00Z";

/// Subcommands of `webhook`.
#[derive(Debug, Clone, Subcommand)]
pub enum WebhookCommand<F: Args> {
    /// Create an endpoint and show its secret
    #[command(after_help = in_own_name(CREATE_HELP))]
    Create(WebhookCreateArgs<F>),
    /// List the endpoints of a tenant
    List(WebhookListArgs<F>),
    /// Show an endpoint, since when it fails, and its success rate
    Show(WebhookEndpointArgs<F>),
    /// Change an endpoint
    #[command(after_help = in_own_name(UPDATE_HELP))]
    Update(WebhookUpdateArgs<F>),
    /// Enable an endpoint: its waiting deliveries are sent
    Enable(WebhookEndpointArgs<F>),
    /// Disable an endpoint: its deliveries are written, but not sent
    Disable(WebhookDisableArgs<F>),
    /// Delete an endpoint and cancel its pending deliveries
    Delete(WebhookEndpointArgs<F>),
    /// Replace the secret of an endpoint and show the new one
    #[command(after_help = ROTATE_SECRET_HELP)]
    RotateSecret(WebhookRotateSecretArgs<F>),
    /// Encrypt all secrets with the current key
    #[command(after_help = in_own_name(ROTATE_KEY_HELP))]
    RotateKey(WebhookRotateKeyArgs<F>),
    /// Send the example of an event type
    Test(WebhookTestArgs<F>),
    /// List the deliveries of an endpoint, newest first
    Deliveries(WebhookDeliveriesArgs<F>),
    /// Send an event to an endpoint again
    Redeliver(WebhookRedeliverArgs<F>),
    /// Send the dead deliveries of a period again
    #[command(after_help = in_own_name(RECOVER_HELP))]
    Recover(WebhookRecoverArgs<F>),
    /// Receive requests on this machine, verify and print them
    #[cfg(feature = "program")]
    Listen(super::listen::WebhookListenArgs),
}

/// Properties of an endpoint.
#[derive(Debug, Clone, Args)]
pub struct EndpointArgs {
    /// Description
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Send the events of a book, reader, ... in order
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ordered: Option<bool>,
    /// Send the whole payload, with personal data masked
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub full: Option<bool>,
    /// Send the whole payload, with personal data
    #[arg(long, conflicts_with = "full")]
    pub unmasked: bool,
    /// Add an asymmetric signature (v1a) to the requests
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub asymmetric: Option<bool>,
    /// Greatest average number of attempts per second [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=MAX_PER_SECOND))]
    pub per_second: Option<u32>,
    /// Maximum number of concurrent attempts, 1 to 64 [default: 2]
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=MAX_IN_FLIGHT))]
    pub max_in_flight: Option<u32>,
    /// Static request header, which other users of this machine can read in `ps`; can be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// File with static request headers, one 'NAME: VALUE' per line; /dev/stdin is standard input
    #[arg(long = "header-file", value_name = "FILE", value_parser = headers)]
    pub headers_of_file: Option<HeadersOfFile>,
}

/// The static request headers in a file.
#[derive(Clone)]
pub struct HeadersOfFile(Vec<(String, String)>);

/// Shows no value.
impl fmt::Debug for HeadersOfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeadersOfFile(..)")
    }
}

impl EndpointArgs {
    /// The headers in the file and those of the flag.
    pub(crate) fn all_headers(&self) -> impl Iterator<Item = &(String, String)> {
        let of_file = self.headers_of_file.iter().flat_map(|HeadersOfFile(headers)| headers);
        of_file.chain(&self.headers)
    }
}

fn headers(path: &str) -> Result<HeadersOfFile, String> {
    lines_of_file(path, header).map(HeadersOfFile)
}

/// Arguments of `webhook create`.
#[derive(Debug, Clone, Args)]
pub struct WebhookCreateArgs<F: Args> {
    /// URL that receives the events
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// Event types, such as book.lent or 'book.*'; separated by commas, or repeated
    #[arg(long, value_name = "TYPES", value_delimiter = ',', required = true)]
    pub types: Vec<String>,
    /// Properties.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
    /// The tenant
    #[arg(long, value_name = "ID", value_parser = tenant, default_value = "1")]
    pub tenant: TenantId,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `webhook list`.
#[derive(Debug, Clone, Args)]
pub struct WebhookListArgs<F: Args> {
    /// The tenant
    #[arg(long, value_name = "ID", value_parser = tenant, default_value = "1")]
    pub tenant: TenantId,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of the commands that need only an endpoint.
#[derive(Debug, Clone, Args)]
pub struct WebhookEndpointArgs<F: Args> {
    /// The endpoint's id
    #[arg(value_name = "ENDPOINT_ID", value_parser = endpoint)]
    pub endpoint: EndpointId,
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A property that an endpoint can be without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Removable {
    /// The description.
    Description,
    /// The limit of attempts per second.
    PerSecond,
    /// All static headers.
    Headers,
}

/// Arguments of `webhook update`.
#[derive(Debug, Clone, Args)]
pub struct WebhookUpdateArgs<F: Args> {
    /// New values.
    #[command(flatten)]
    pub values: EndpointArgs,
    /// URL that receives the events
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Event types, such as book.lent or 'book.*'; separated by commas, or repeated
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub types: Vec<String>,
    /// Property to remove; can be repeated
    #[arg(long, value_name = "PROPERTY")]
    pub remove: Vec<Removable>,
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
}

/// Arguments of `webhook disable`.
#[derive(Debug, Clone, Args)]
pub struct WebhookDisableArgs<F: Args> {
    /// Reason, shown with the endpoint and recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<Reason>,
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
}

/// Arguments of `webhook rotate-secret`.
#[derive(Debug, Clone, Args)]
pub struct WebhookRotateSecretArgs<F: Args> {
    /// Hours for which requests are also signed with the previous secret, 0 to 168 [default: 24]
    #[arg(long, value_name = "HOURS", value_parser = whole(0..=MAX_OVERLAP_HOURS))]
    pub overlap_hours: Option<u32>,
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
}

/// Arguments of `webhook rotate-key`.
#[derive(Debug, Clone, Args)]
pub struct WebhookRotateKeyArgs<F: Args> {
    /// Flags of every command.
    #[command(flatten)]
    pub common: F,
}

/// Arguments of `webhook test`.
#[derive(Debug, Clone, Args)]
pub struct WebhookTestArgs<F: Args> {
    /// The event type, such as book.lent
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: String,
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
}

/// Arguments of `webhook deliveries`.
#[derive(Debug, Clone, Args)]
pub struct WebhookDeliveriesArgs<F: Args> {
    /// Only deliveries in this state: pending, delivered, dead, cancelled
    #[arg(long, value_name = "STATE", value_parser = delivery_state(), hide_possible_values = true)]
    pub state: Option<DeliveryState>,
    /// Only events of this type, such as book.lent
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only deliveries whose last response had this HTTP status
    #[arg(long, value_name = "STATUS", value_parser = whole(100..=599_u16))]
    pub status: Option<u16>,
    /// Only deliveries written at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Only deliveries written before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<DateTime<Utc>>,
    /// Page of the list.
    #[command(flatten)]
    pub page: PageArgs,
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
}

/// Arguments of `webhook redeliver`.
#[derive(Debug, Clone, Args)]
pub struct WebhookRedeliverArgs<F: Args> {
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
    /// The delivery's id
    #[arg(value_name = "DELIVERY_ID", value_parser = whole(1..=i64::MAX))]
    pub delivery: i64,
}

/// Arguments of `webhook recover`.
#[derive(Debug, Clone, Args)]
pub struct WebhookRecoverArgs<F: Args> {
    /// Begin of the period, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: DateTime<Utc>,
    /// End of the period [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<DateTime<Utc>>,
    /// Also deliver events that have no delivery
    #[arg(long)]
    pub include_missing: bool,
    /// Continue after the recovery that returned this `nextCursor`
    #[arg(long, value_name = "CURSOR", value_parser = cursor, requires = "include_missing")]
    pub cursor: Option<i64>,
    /// Show what would happen without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// The endpoint.
    #[command(flatten)]
    pub of: WebhookEndpointArgs<F>,
}
