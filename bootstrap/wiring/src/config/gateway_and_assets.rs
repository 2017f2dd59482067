//! Payment gateway, assets and consistency checks: `[gateway]`, `[asset]`, `[consistency]`.

use std::fmt;
use std::time::Duration;

use marketplace::{ConsistencySettings, RefundSettings};
use marketplace_domain::PointsRules;
use marketplace_gateway::Endpoint;
use marketplace_http::CallbackVerifier;

use super::error::{ConfigError, Origin};
use super::read::{HOURS, Item, MINUTES, Reader};
use super::{GATEWAY_SECRET, HOUR, MILLISECOND, MINUTE, PREVIOUS_GATEWAY_SECRET, SECOND, Secret};

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

const SANDBOX: &str = "sandbox:";

/// The gateway, then `gateway.secret` and `gateway.previous-secret`.
type GatewaySettings = (GatewayConfig, Option<Secret>, Option<Secret>);

/// Reads `gateway.url`, `gateway.secret`, `gateway.previous-secret`, `gateway.require-reference` and
/// `gateway.sandbox-delay`.
pub(super) fn gateway(reader: &Reader<'_>) -> Result<GatewaySettings, ConfigError> {
    let item = reader.url("gateway.url", SANDBOX);
    let generated = "remove the key to have a secret generated";
    let current = reader.secret(GATEWAY_SECRET).map(|item| secret(&item, generated)).transpose()?;
    let unused = "remove the key if the gateway uses no other secret";
    let previous = reader.secret(PREVIOUS_GATEWAY_SECRET).map(|item| secret(&item, unused)).transpose()?;
    let requires_reference = reader.value("gateway.require-reference", "false").boolean()?;
    let why = "without a delay the sandbox could report before the request has ended; with a long one a trial waits too long";
    let delay = reader.value("gateway.sandbox-delay", "1s").duration(MILLISECOND..=HOUR, why)?;
    let url = item.as_text()?;
    let choice = if url == SANDBOX {
        GatewayChoice::Sandbox(delay)
    } else {
        let remedy = "write https://host/path of a payment gateway, http:// for one on this machine, or sandbox: \
                      (reports refunds as paid and moves no money)";
        GatewayChoice::Http(Endpoint::parse(&url).map_err(|error| item.refused(&error.to_string(), remedy))?)
    };
    let is_chosen = !matches!(item.setting.origin, Origin::Default);
    Ok((GatewayConfig { choice, is_chosen, requires_reference }, current, previous))
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
pub(super) fn refund(reader: &Reader<'_>) -> Result<RefundSettings, ConfigError> {
    let why = "with a short timeout, requests to a slow gateway are repeated; with a long one, refunds wait for a gateway that hangs";
    let timeout = reader.value("gateway.timeout", "10s").duration(MILLISECOND * 100..=MINUTE * 10, why)?;
    let why = "the scan sends refund requests: it must run regularly, but not continuously";
    let scan_interval = reader.value("gateway.scan-interval", "1s").duration(MILLISECOND * 10..=HOUR, why)?;
    let base = reader.value("gateway.retry-base", "5s");
    let cap = reader.value("gateway.retry-cap", "1h");
    let why = "short pauses overload a failing gateway, and pauses of several days delay refunds too long";
    let [retry_base, retry_cap] = [&base, &cap].map(|item| item.duration(MILLISECOND * 100..=DAY, why));
    let [retry_base, retry_cap] = [retry_base?, retry_cap?];
    if retry_cap < retry_base {
        let why = "the maximum pause must not be shorter than the first pause";
        return Err(cap.too_short("to at least", &base, retry_base, why));
    }
    Ok(RefundSettings { scan_interval, timeout, retry_base, retry_cap, ..RefundSettings::default() })
}

/// Reads `asset.*` and `consistency.*`.
pub(super) fn assets(reader: &Reader<'_>) -> Result<(PointsRules, ConsistencySettings), ConfigError> {
    let why = "a short timeout releases the locks of orders that are still being paid, and a long one keeps assets locked";
    let lock_timeout = reader.value("asset.lock-timeout-minutes", "30").time(&MINUTES, MAX_DAYS, why)?;
    let why = "the reaper releases locks that are still pending: it must run regularly, but not continuously";
    let reaper_interval =
        reader.value("asset.reaper-interval", "5m").duration(MILLISECOND * 10..=DAY, why)?;
    let why = "0 points cannot be worth 1.00, and above the limit one point would be worth almost nothing";
    let per_unit = reader.value("asset.points-per-unit", "100").count(1..=MAX_POINTS, why)?;
    let why = "0 earns no points; above the limit the points could be worth more than the amount paid";
    let earned_per_unit = reader.value("asset.earn-per-unit", "1").count(0..=MAX_POINTS, why)?;
    let points = PointsRules { per_unit, earned_per_unit };
    let window = reader.value("consistency.scan-window-hours", "24");
    let interval = reader.value("consistency.interval", "2h");
    let scan_interval = interval
        .duration(SECOND..=DAY, "the scan finds lost events: it must run regularly, but not continuously")?;
    let why =
        "a window of 0 hours contains no orders, and a very long one reads almost all orders in every scan";
    let scan_window = window.time(&HOURS, MAX_DAYS, why)?;
    if scan_window < scan_interval {
        let why = "orders that change between the windows of two scans would not be checked";
        return Err(window.too_short("to at least", &interval, scan_interval, why));
    }
    let consistency = ConsistencySettings {
        lock_timeout,
        reaper_interval,
        scan_window,
        scan_interval,
        ..ConsistencySettings::default()
    };
    Ok((points, consistency))
}
