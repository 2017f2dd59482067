//! The payment gateway, and what keeps money and assets in step with the orders: `[gateway]`, `[asset]`, `[consistency]`.

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
/// A lock that is older than a year is remembered by nobody, nor is a lost event.
const MAX_DAYS: u32 = 365;
/// Points for 1.00: more of them would be worth nothing to anybody.
const MAX_POINTS: u32 = 1_000_000;

/// Who pays back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayChoice {
    /// Nobody: a sandbox in this process says that it did, that long after it was asked.
    Sandbox(Duration),
    /// A gateway behind HTTP.
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

/// `gateway.url`, with where it came from.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Who pays back.
    pub choice: GatewayChoice,
    /// Whether somebody chose that: the built-in default is for trying out.
    pub is_chosen: bool,
}

const SANDBOX: &str = "sandbox:";

/// `gateway.url` and `gateway.sandbox-delay`.
pub(super) fn gateway(reader: &Reader<'_>) -> Result<GatewayConfig, ConfigError> {
    let delay_why = "a report that comes before the question, or hours later, tries nothing out";
    let delay = reader.duration("gateway.sandbox-delay", MILLISECOND..=HOUR, delay_why)?;
    let item = reader.item("gateway.url")?;
    let url = item.text()?;
    let choice = if url == SANDBOX {
        GatewayChoice::Sandbox(delay)
    } else {
        let remedy = "write https://host/path of a payment gateway, http:// for one on this machine, or sandbox: \
                      (says that it paid back, and moves no money)";
        let endpoint = Endpoint::parse(&url)
            .map_err(|error| item.refused_as(&shown(&url), &error.to_string(), remedy))?;
        GatewayChoice::Http(endpoint)
    };
    Ok(GatewayConfig { choice, is_chosen: !matches!(item.setting.origin, Origin::Default) })
}

/// The rest of `gateway.*`.
pub(super) fn refund(reader: &Reader<'_>) -> Result<RefundSettings, ConfigError> {
    let scan_why = "a refund waits that long before it is asked for: never, or without pause, is no scan";
    let timeout_why = "a gateway that hangs must be given up, a slow one must not";
    let retry_why =
        "without a pause a gateway in trouble is pressed harder, after days nobody waits any more";
    let retry_base = reader.duration("gateway.retry-base", MILLISECOND * 100..=DAY, retry_why)?;
    let retry_cap = reader.duration("gateway.retry-cap", MILLISECOND * 100..=DAY, retry_why)?;
    if retry_cap < retry_base {
        let remedy = format!(
            "set it to gateway.retry-base, which is \"{}\", or above",
            humantime::format_duration(retry_base)
        );
        let why = "it is below the first pause, which would never be waited";
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

/// `asset.points-per-unit` and `asset.earn-per-unit`.
pub(super) fn points(reader: &Reader<'_>) -> Result<PointsRules, ConfigError> {
    let worth_why = "points of which none are worth 1.00 could pay for nothing, or for everything";
    let per_unit = reader.count("asset.points-per-unit", 1..=MAX_POINTS, worth_why)?;
    let earn_why = "0 earns none; more than that gives more away than was paid";
    Ok(PointsRules {
        per_unit: NonZeroU32::new(per_unit).unwrap_or(NonZeroU32::MIN),
        earned_per_unit: reader.count("asset.earn-per-unit", 0..=MAX_POINTS, earn_why)?,
    })
}

/// `consistency.*`, and the reaper's part of `asset.*`.
pub(super) fn consistency(reader: &Reader<'_>) -> Result<ConsistencySettings, ConfigError> {
    let reaper_why = "locks that nobody ended are found by it: never, or without pause, is no reaper";
    let interval_why = "lost events are found by it: never, or without pause, is no scan";
    let lock_why = "locks of orders that are only just being paid would be taken away";
    let window_why = "a scan of nothing finds nothing";
    let scan_interval = reader.duration("consistency.interval", SECOND..=DAY, interval_why)?;
    let scan_window = reader.time("consistency.scan-window-hours", &HOURS, MAX_DAYS, window_why)?;
    if scan_window < scan_interval {
        let remedy = format!(
            "set it to at least consistency.interval, which is \"{}\"",
            humantime::format_duration(scan_interval)
        );
        let why = "what changed between two scans would be looked at by neither";
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
