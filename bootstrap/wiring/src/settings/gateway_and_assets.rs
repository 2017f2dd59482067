//! Payment gateway, assets and consistency checks: `[gateway]`, `[asset]`, `[consistency]`.

use std::fmt;
use std::time::Duration;

use handover_runtime::config::{
    Checked, ConfigError, HOUR, HOURS, Item, Kind, MILLISECOND, MINUTE, MINUTES, Reader, SECOND, Secret,
};
use marketplace::{ConsistencySettings, RefundSettings};
use marketplace_domain::PointsRules;
use marketplace_gateway::Endpoint;
use marketplace_http::CallbackVerifier;

/// The key of the secret that signs calls to and from the gateway.
pub(crate) const GATEWAY_SECRET: &str = "gateway.secret";
/// The key of the previous secret, with which callbacks are still verified.
pub(crate) const PREVIOUS_GATEWAY_SECRET: &str = "gateway.previous-secret";

const DAY: Duration = HOUR.saturating_mul(24);
/// Upper limit of both `asset.lock-timeout-minutes` and `consistency.scan-window-hours`, in days.
const MAX_DAYS: u32 = 365;
/// Upper limit of both `asset.points-per-unit` and `asset.earn-per-unit`.
const MAX_POINTS: u32 = 1_000_000;

/// Payment gateway used for refunds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayChoice {
    /// The sandbox in this process: reports a refund as paid after this delay and moves no money.
    Sandbox(Duration),
    Http(Endpoint),
}

impl fmt::Display for GatewayChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayChoice::Sandbox(_) => f.write_str(SANDBOX),
            GatewayChoice::Http(endpoint) => endpoint.fmt(f),
        }
    }
}

/// Payment gateway.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    pub choice: GatewayChoice,
    /// Whether `gateway.url` was set explicitly: its built-in default is for trials only.
    pub is_chosen: bool,
    /// `gateway.require-reference`: refuse callbacks that name a payment or refund by id alone.
    pub requires_reference: bool,
}

const GATEWAY_URL: &str = "gateway.url";
const SANDBOX: &str = "sandbox:";
const RETRY_BASE: &str = "gateway.retry-base";
const RETRY_CAP: &str = "gateway.retry-cap";
const LOCK_TIMEOUT: &str = "asset.lock-timeout-minutes";
const SCAN_WINDOW: &str = "consistency.scan-window-hours";
const SCAN_INTERVAL: &str = "consistency.interval";

/// The gateway with the secrets of its requests and callbacks.
pub(super) struct GatewaySettings {
    pub(super) config: GatewayConfig,
    pub(super) secret: Option<Secret>,
    pub(super) previous_secret: Option<Secret>,
}

/// Reads `gateway.url`, `gateway.secret`, `gateway.previous-secret`, `gateway.require-reference` and
/// `gateway.sandbox-delay`.
pub(super) fn gateway(reader: &Reader<'_>) -> Checked<GatewaySettings> {
    let endpoint = reader.key(Kind::Url, GATEWAY_URL, SANDBOX, endpoint);
    let generated = "remove the key to have a secret generated";
    let current = Kind::Secret { is_generated: true };
    let current = reader.optional(current, GATEWAY_SECRET, |item| secret(item, generated));
    let unused = "remove the key if the gateway uses no other secret";
    let previous = Kind::Secret { is_generated: false };
    let previous = reader.optional(previous, PREVIOUS_GATEWAY_SECRET, |item| secret(item, unused));
    let requires_reference = reader.boolean("gateway.require-reference", "false");
    let why = "without a delay the sandbox could report before the request has ended; with a long one a trial waits too long";
    let delay = reader.duration("gateway.sandbox-delay", "1s", MILLISECOND..=HOUR, why);
    let choice = match endpoint? {
        Some(endpoint) => GatewayChoice::Http(endpoint),
        None => GatewayChoice::Sandbox(delay?),
    };
    let is_chosen = reader.is_set(GATEWAY_URL);
    Ok(GatewaySettings {
        config: GatewayConfig { choice, is_chosen, requires_reference: requires_reference? },
        secret: current?,
        previous_secret: previous?,
    })
}

/// The address of the gateway; `None` for the sandbox.
fn endpoint(item: &Item) -> Result<Option<Endpoint>, ConfigError> {
    let url = item.as_text()?;
    if url == SANDBOX {
        return Ok(None);
    }
    let remedy = "write https://host/path of a payment gateway, http:// for one on this machine, or sandbox: \
                  (reports refunds as paid and moves no money)";
    Endpoint::parse(&url).map(Some).map_err(|error| item.refused(&error.to_string(), remedy))
}

fn secret(item: &Item, otherwise: &str) -> Result<Secret, ConfigError> {
    let secret = item.as_text()?;
    if CallbackVerifier::new(&secret).is_err() {
        let remedy = &format!(
            "set whsec_ followed by 24 to 64 random bytes in base64 (echo whsec_$(openssl rand -base64 32)), or \
             {otherwise}"
        );
        return Err(item.refused_as(
            "not a signing secret",
            "the signature with this secret is the only proof that a payment callback is genuine",
            remedy,
        ));
    }
    Ok(Secret::new(secret))
}

/// Reads `gateway.timeout`, `gateway.scan-interval`, `gateway.retry-base` and `gateway.retry-cap`.
pub(super) fn refund(reader: &Reader<'_>) -> Checked<RefundSettings> {
    let why = "with a short timeout, requests to a slow gateway are repeated; with a long one, refunds wait for a gateway that hangs";
    let timeout = reader.duration("gateway.timeout", "10s", MILLISECOND * 100..=MINUTE * 10, why);
    let why = "the scan sends refund requests: it must run regularly, but not continuously";
    let scan_interval = reader.duration("gateway.scan-interval", "1s", MILLISECOND * 10..=HOUR, why);
    let why = "short pauses overload a failing gateway, and pauses of several days delay refunds too long";
    let retry_base = reader.duration(RETRY_BASE, "5s", MILLISECOND * 100..=DAY, why);
    let retry_cap = reader.duration(RETRY_CAP, "1h", MILLISECOND * 100..=DAY, why);
    if let (Ok(retry_base), Ok(retry_cap)) = (retry_base, retry_cap)
        && retry_cap < retry_base
    {
        let why = "the maximum pause must not be shorter than the first pause";
        reader.too_short(RETRY_CAP, "to at least", RETRY_BASE, retry_base, why);
    }
    Ok(RefundSettings {
        scan_interval: scan_interval?,
        timeout: timeout?,
        retry_base: retry_base?,
        retry_cap: retry_cap?,
        ..RefundSettings::default()
    })
}

/// The locks of assets: `asset.lock-timeout-minutes` and `asset.reaper-interval`.
pub(super) struct AssetSettings {
    lock_timeout: Checked<Duration>,
    reaper_interval: Checked<Duration>,
    /// `asset.points-per-unit` and `asset.earn-per-unit`.
    pub(super) points: Checked<PointsRules>,
}

/// Reads `asset.*`. Unless it is set, the timeout of locks does not end before the payment deadline, because the reaper closes
/// an unpaid order before it releases its locks.
pub(super) fn assets(reader: &Reader<'_>, pending_timeout: Checked<Duration>) -> AssetSettings {
    let why = "a short timeout releases the locks of orders that are still being paid, and a long one keeps assets locked";
    let lock_timeout = reader.time(LOCK_TIMEOUT, "30", &MINUTES, MAX_DAYS, why);
    let at_least = pending_timeout.ok().filter(|_| !reader.is_set(LOCK_TIMEOUT)).unwrap_or_default();
    let lock_timeout = lock_timeout.map(|timeout| timeout.max(at_least));
    let why = "the reaper releases locks that are still pending: it must run regularly, but not continuously";
    let reaper_interval = reader.duration("asset.reaper-interval", "5m", MILLISECOND * 10..=DAY, why);
    let why = "0 points cannot be worth 1.00, and above the limit one point would be worth almost nothing";
    let per_unit = reader.count("asset.points-per-unit", "100", 1..=MAX_POINTS, why);
    let why = "0 earns no points; above the limit the points could be worth more than the amount paid";
    let earned_per_unit = reader.count("asset.earn-per-unit", "1", 0..=MAX_POINTS, why);
    let points =
        per_unit.and_then(|per_unit| Ok(PointsRules { per_unit, earned_per_unit: earned_per_unit? }));
    AssetSettings { lock_timeout, reaper_interval, points }
}

/// Reads `consistency.*`.
pub(super) fn consistency(reader: &Reader<'_>, assets: &AssetSettings) -> Checked<ConsistencySettings> {
    let why =
        "a window of 0 hours contains no orders, and a very long one reads almost all orders in every scan";
    let scan_window = reader.time(SCAN_WINDOW, "24", &HOURS, MAX_DAYS, why);
    let why =
        "the comparison must run regularly, but not continuously, and an order must have settled before";
    let recent_interval = reader.duration("consistency.recent-interval", "1m", SECOND..=DAY, why);
    let why = "the scan finds lost events: it must run regularly, but not continuously";
    let scan_interval = reader.duration(SCAN_INTERVAL, "2h", SECOND..=DAY, why);
    if let (Ok(scan_window), Ok(scan_interval)) = (scan_window, scan_interval)
        && scan_window < scan_interval
    {
        let why = "orders that change between the windows of two scans would not be checked";
        reader.too_short(SCAN_WINDOW, "to at least", SCAN_INTERVAL, scan_interval, why);
    }
    Ok(ConsistencySettings {
        lock_timeout: assets.lock_timeout?,
        reaper_interval: assets.reaper_interval?,
        recent_interval: recent_interval?,
        scan_window: scan_window?,
        scan_interval: scan_interval?,
        ..ConsistencySettings::default()
    })
}
