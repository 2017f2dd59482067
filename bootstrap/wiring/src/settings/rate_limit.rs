//! Rate limits: `[rate-limit]`.

use std::num::NonZeroU32;

use handover_http::Proxies;
use handover_runtime::config::{Checked, ConfigError, Item, Kind, Reader, best, similarity};
use marketplace::ports::Bucket;
use marketplace_http::LIMITED_ROUTES;
use serde::Deserialize;
use toml::Value;

const CAPACITY: &str = "rate-limit.capacity";
const PER_SECOND: &str = "rate-limit.per-second";

/// Maximum capacity of a bucket.
const MAX_CAPACITY: u32 = 1_000_000;
/// Range of `per-second`: from one token in about 17 minutes to one in ten microseconds.
const MIN_PER_SECOND: f64 = 0.001;
const MAX_PER_SECOND: f64 = 100_000.0;

/// Rate limits and trusted proxies.
#[derive(Debug, Clone)]
pub struct LimitConfig {
    /// `rate-limit.capacity` and `rate-limit.per-second`.
    pub bucket: Bucket,
    /// `rate-limit.routes`.
    pub routes: Vec<(&'static str, Bucket)>,
    /// `http.trusted-proxies` and `http.forwarded-header`.
    pub proxies: Proxies,
}

/// Limits of one route; missing fields are those of `[rate-limit]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RouteLimit {
    capacity: Option<u32>,
    per_second: Option<f64>,
}

/// Reads `rate-limit.*` except `rate-limit.store`.
pub(super) fn limits(reader: &Reader<'_>, proxies: Checked<Proxies>) -> Checked<LimitConfig> {
    let why = "a capacity of 0 refuses every request, and one above the maximum does not limit anybody";
    let capacity = reader.count(CAPACITY, "200", 1..=MAX_CAPACITY, why);
    let per_second = reader.key(Kind::Value, PER_SECOND, "200", rate);
    let routes = reader.key(Kind::Value, "rate-limit.routes", "{}", |item| {
        // Routes with both fields are checked even if the defaults of these fields are invalid.
        routes(item, capacity.unwrap_or(MAX_CAPACITY), per_second.unwrap_or(MAX_PER_SECOND))
    });
    let bucket = interval_us(per_second?).and_then(|interval_us| bucket(capacity.ok()?, interval_us));
    let bucket = bucket.ok_or_else(|| {
        let why = "an empty bucket must be full again within a day";
        let remedy = "set a smaller capacity, or a larger rate-limit.per-second";
        reader.report(reader.item(CAPACITY).refused(why, remedy).related_to(&[PER_SECOND]))
    });
    Ok(LimitConfig { bucket: bucket?, routes: routes?, proxies: proxies? })
}

fn rate(item: &Item) -> Result<f64, ConfigError> {
    let remedy =
        format!("set a number from {MIN_PER_SECOND} to {MAX_PER_SECOND}; 0.1 is one request in 10 s");
    let rate = item.parse("it is not a number", &remedy)?;
    let why = "a rate below the minimum refuses almost every request, and one above the maximum does not limit anybody";
    interval_us(rate).map(|_| rate).ok_or_else(|| item.refused(why, &remedy))
}

/// Microseconds per token; rounded up, so that nobody gets more tokens than configured.
fn interval_us(per_second: f64) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only called for a rate in range: the interval is positive and below 2^53"
    )]
    let interval = |per_second: f64| (1_000_000.0 / per_second).ceil() as u64;
    (MIN_PER_SECOND..=MAX_PER_SECOND).contains(&per_second).then(|| interval(per_second))
}

fn bucket(capacity: u32, every_us: u64) -> Option<Bucket> {
    let capacity = NonZeroU32::new(capacity).filter(|capacity| capacity.get() <= MAX_CAPACITY)?;
    Bucket::new(capacity, every_us).ok()
}

fn routes(item: &Item, capacity: u32, per_second: f64) -> Result<Vec<(&'static str, Bucket)>, ConfigError> {
    let remedy = "write {\"POST /api/v1/orders\" = {capacity = 20, per-second = 5}}, or remove the key";
    let Value::Table(all) = item.value() else {
        return Err(item.refused("it is not a table of routes", remedy));
    };
    let read = |(name, value): (&String, &Value)| {
        let route = named(name).ok_or_else(|| unknown(item, name))?;
        let own: RouteLimit = value.clone().try_into().map_err(|_| {
            let why = "a route accepts only capacity and per-second";
            item.refused_as(&format!("invalid for {route}"), why, remedy)
        })?;
        let bucket = interval_us(own.per_second.unwrap_or(per_second))
            .and_then(|interval_us| bucket(own.capacity.unwrap_or(capacity), interval_us))
            .ok_or_else(|| {
                let why =
                    "a value is out of range, or an empty bucket takes more than a day to be full again";
                let error = item.refused_as(&format!("invalid for {route}"), why, &range());
                error.related_to(&[CAPACITY, PER_SECOND])
            })?;
        Ok((route, bucket))
    };
    all.iter().map(read).collect()
}

fn range() -> String {
    format!("set capacity from 1 to {MAX_CAPACITY}, per-second from {MIN_PER_SECOND} to {MAX_PER_SECOND}")
}

fn named(name: &str) -> Option<&'static str> {
    LIMITED_ROUTES.iter().copied().find(|route| *route == name)
}

fn unknown(item: &Item, name: &str) -> ConfigError {
    let nearest = best(LIMITED_ROUTES.iter().copied(), |route| similarity(route, name));
    let remedy = match nearest {
        Some(route) => format!("did you mean \"{route}\"? otherwise remove it"),
        None => {
            "write method and path, with parameters in braces: \"POST /api/v1/orders/{id}/ship\"".to_owned()
        }
    };
    let why = "there is no such route, so the limit would be ignored silently";
    item.refused_as(&format!("for \"{name}\""), why, &remedy)
}
