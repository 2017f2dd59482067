//! Payment gateway, assets and consistency checks: `[gateway]`, `[asset]`, `[consistency]`.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use marketplace::{ConsistencySettings, RefundSettings};
use marketplace_domain::PointsRules;
use marketplace_gateway::Endpoint;

use super::error::{ConfigError, Origin};
use super::read::{HOURS, MINUTES, Reader};
use super::urls::shown;
use super::{HOUR, MILLISECOND, MINUTE, SECOND};

const DAY: Duration = HOUR.saturating_mul(24);
/// Maximum of `asset.lock-timeout-minutes` and `consistency.scan-window-hours`, in days.
const MAX_DAYS: u32 = 365;
/// Maximum of `asset.points-per-unit` and `asset.earn-per-unit`.
const MAX_POINTS: u32 = 1_000_000;

/// Payment gateway used for refunds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayChoice {
    /// The sandbox in this process: reports a refund as paid after this delay and moves no money.
    Sandbox(Duration),
    /// A gateway with an HTTP API.
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

/// `gateway.url`, and whether it was set.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    pub choice: GatewayChoice,
    /// Whether it was set explicitly: the built-in default is for trials only.
    pub is_chosen: bool,
}

const SANDBOX: &str = "sandbox:";

/// Reads `gateway.url` and `gateway.sandbox-delay`.
pub(super) fn gateway(reader: &Reader<'_>) -> Result<GatewayConfig, ConfigError> {
    let delay_why = "the sandbox must report after the request, and soon enough for a trial";
    let delay = reader.duration("gateway.sandbox-delay", MILLISECOND..=HOUR, delay_why)?;
    let item = reader.item("gateway.url")?;
    let url = item.text()?;
    let choice = if url == SANDBOX {
        GatewayChoice::Sandbox(delay)
    } else {
        let remedy = "write https://host/path of a payment gateway, http:// for one on this machine, or sandbox: \
                      (reports refunds as paid and moves no money)";
        let endpoint = Endpoint::parse(&url)
            .map_err(|error| item.refused_as(&shown(&url), &error.to_string(), remedy))?;
        GatewayChoice::Http(endpoint)
    };
    Ok(GatewayConfig { choice, is_chosen: !matches!(item.setting.origin, Origin::Default) })
}

/// Reads the other keys of `gateway.*`.
pub(super) fn refund(reader: &Reader<'_>) -> Result<RefundSettings, ConfigError> {
    let scan_why = "the scan sends refund requests: it must run regularly, but not continuously";
    let timeout_why =
        "a short timeout repeats requests to a slow gateway, a long one waits for a gateway that hangs";
    let retry_why = "short pauses overload a failing gateway, and pauses of days delay refunds too long";
    let retry_base = reader.duration("gateway.retry-base", MILLISECOND * 100..=DAY, retry_why)?;
    let retry_cap = reader.duration("gateway.retry-cap", MILLISECOND * 100..=DAY, retry_why)?;
    if retry_cap < retry_base {
        let remedy = format!(
            "set it to gateway.retry-base, which is \"{}\", or above",
            humantime::format_duration(retry_base)
        );
        let why = "the maximum pause must not be shorter than the first pause";
        let error = reader.item("gateway.retry-cap")?.refused(why, &remedy);
        return Err(error.related_to(&["gateway.retry-base"]));
    }
    Ok(RefundSettings {
        scan_interval: reader.duration("gateway.scan-interval", MILLISECOND * 10..=HOUR, scan_why)?,
        timeout: reader.duration("gateway.timeout", MILLISECOND * 100..=MINUTE * 10, timeout_why)?,
        retry_base,
        retry_cap,
        ..RefundSettings::default()
    })
}

/// Reads `asset.points-per-unit` and `asset.earn-per-unit`.
pub(super) fn points(reader: &Reader<'_>) -> Result<PointsRules, ConfigError> {
    let worth_why = "0 points cannot be worth 1.00, and with more points each would be worth almost nothing";
    let per_unit = reader.count("asset.points-per-unit", 1..=MAX_POINTS, worth_why)?;
    let earn_why = "0 earns no points; more than the limit could be worth more than was paid";
    Ok(PointsRules {
        per_unit: NonZeroU32::new(per_unit).unwrap_or(NonZeroU32::MIN),
        earned_per_unit: reader.count("asset.earn-per-unit", 0..=MAX_POINTS, earn_why)?,
    })
}

/// Reads `consistency.*` and the reaper's keys of `asset.*`.
pub(super) fn consistency(reader: &Reader<'_>) -> Result<ConsistencySettings, ConfigError> {
    let reaper_why =
        "the reaper releases locks that are still pending: it must run regularly, but not continuously";
    let interval_why = "the scan finds lost events: it must run regularly, but not continuously";
    let lock_why = "a short timeout releases the locks of orders that are still being paid";
    let window_why = "a window of 0 hours contains no orders";
    let scan_interval = reader.duration("consistency.interval", SECOND..=DAY, interval_why)?;
    let scan_window = reader.time("consistency.scan-window-hours", &HOURS, MAX_DAYS, window_why)?;
    if scan_window < scan_interval {
        let remedy = format!(
            "set it to at least consistency.interval, which is \"{}\"",
            humantime::format_duration(scan_interval)
        );
        let why = "neither of two scans would check orders that changed between them";
        let error = reader.item("consistency.scan-window-hours")?.refused(why, &remedy);
        return Err(error.related_to(&["consistency.interval"]));
    }
    Ok(ConsistencySettings {
        lock_timeout: reader.time("asset.lock-timeout-minutes", &MINUTES, MAX_DAYS, lock_why)?,
        reaper_interval: reader.duration("asset.reaper-interval", MILLISECOND * 10..=DAY, reaper_why)?,
        scan_window,
        scan_interval,
        ..ConsistencySettings::default()
    })
}
