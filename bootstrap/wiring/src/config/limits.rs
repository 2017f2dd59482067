//! How often a client may ask: `[rate-limit]`, and the proxies of `[http]`.

use std::num::NonZeroU32;

use marketplace::ports::Bucket;
use marketplace_http::{ForwardedHeader, LIMITED_ROUTES, Proxies};
use serde::Deserialize;
use toml::Value;

use super::error::ConfigError;
use super::read::{Item, Reader};

/// The greatest bucket.
const MAX_CAPACITY: u32 = 1_000_000;
/// The slowest and the fastest pace, in tokens a second: one in a quarter of an hour, one in ten microseconds.
const LEAST_PER_SECOND: f64 = 0.001;
const MOST_PER_SECOND: f64 = 100_000.0;
/// How alike a route has to be to be taken for the one that was meant.
const ALIKE: f64 = 0.6;

/// How often a client may ask.
#[derive(Debug, Clone)]
pub struct LimitConfig {
    /// `rate-limit.capacity` and `rate-limit.per-second`.
    pub bucket: Bucket,
    /// `rate-limit.routes`.
    pub routes: Vec<(&'static str, Bucket)>,
    /// `http.trusted-proxies` and `http.forwarded-header`.
    pub proxies: Proxies,
}

/// What a route has otherwise than all others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct OfRoute {
    capacity: Option<u32>,
    per_second: Option<f64>,
}

/// `rate-limit.*`, `http.trusted-proxies`, `http.forwarded-header`.
pub(super) fn limits(reader: &Reader<'_>) -> Result<LimitConfig, ConfigError> {
    let (per_second, capacity) = (reader.item("rate-limit.per-second")?, reader.item("rate-limit.capacity")?);
    let remedy = format!("set a number from {LEAST_PER_SECOND} to {MOST_PER_SECOND}; 0.1 is one in 10 s");
    let pace = per_second.value("it is no number", &remedy)?;
    let every = pace_of(pace).ok_or_else(|| per_second.refused("it is no pace", &remedy))?;
    let size_why = "a bucket of none lets nobody in, and a greater one is no limit to anybody";
    let size = reader.count("rate-limit.capacity", 1..=MAX_CAPACITY, size_why)?;
    let why = "an empty bucket has to be full again within a day";
    let remedy = "set a smaller one, or a greater rate-limit.per-second";
    let bucket = bucket(size, every)
        .ok_or_else(|| capacity.refused(why, remedy).related_to(&["rate-limit.per-second"]))?;
    Ok(LimitConfig {
        bucket,
        routes: routes(&reader.item("rate-limit.routes")?, size, pace)?,
        proxies: proxies(reader)?,
    })
}

/// How long a token takes, in microseconds; rounded up, so that nobody gets more than was said.
fn pace_of(per_second: f64) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and below 2^53 by now"
    )]
    let every = |per_second: f64| (1_000_000.0 / per_second).ceil() as u64;
    (LEAST_PER_SECOND..=MOST_PER_SECOND).contains(&per_second).then(|| every(per_second))
}

fn bucket(capacity: u32, every_us: u64) -> Option<Bucket> {
    let capacity = NonZeroU32::new(capacity).filter(|capacity| capacity.get() <= MAX_CAPACITY)?;
    Bucket::new(capacity, every_us).ok()
}

fn routes(
    item: &Item<'_>,
    capacity: u32,
    per_second: f64,
) -> Result<Vec<(&'static str, Bucket)>, ConfigError> {
    let remedy = "write {\"POST /api/v1/orders\" = {capacity = 20, per-second = 5}}, or leave it out";
    let Value::Table(all) = &item.setting.value else {
        return Err(item.refused("it is no table of routes", remedy));
    };
    let read = |(name, value): (&String, &Value)| {
        let route = named(name).ok_or_else(|| unknown(item, name))?;
        let own: OfRoute = value.clone().try_into().map_err(|_| {
            let why = "a route has a capacity and a pace per-second, and nothing else";
            item.refused_as(&format!("wrong for {route}"), why, remedy)
        })?;
        let bucket = pace_of(own.per_second.unwrap_or(per_second))
            .and_then(|every| bucket(own.capacity.unwrap_or(capacity), every))
            .ok_or_else(|| {
                let why = "such a bucket is never empty, or takes more than a day to be full again";
                let error = item.refused_as(&format!("wrong for {route}"), why, &range());
                error.related_to(&["rate-limit.capacity", "rate-limit.per-second"])
            })?;
        Ok((route, bucket))
    };
    all.iter().map(read).collect()
}

fn range() -> String {
    format!("set capacity from 1 to {MAX_CAPACITY}, per-second from {LEAST_PER_SECOND} to {MOST_PER_SECOND}")
}

fn named(name: &str) -> Option<&'static str> {
    LIMITED_ROUTES.iter().copied().find(|route| *route == name)
}

fn unknown(item: &Item<'_>, name: &str) -> ConfigError {
    let alike = |route: &str| strsim::normalized_damerau_levenshtein(route, name);
    let nearest = LIMITED_ROUTES.iter().map(|route| (alike(route), *route));
    let nearest =
        nearest.filter(|(likeness, _)| *likeness >= ALIKE).max_by(|(one, _), (two, _)| one.total_cmp(two));
    let remedy = match nearest {
        Some((_, route)) => format!("did you mean \"{route}\"? otherwise remove it"),
        None => {
            "write method and path with its names in braces: \"POST /api/v1/orders/{id}/ship\"".to_owned()
        }
    };
    let why = "no route is called that, so its limit would be ignored in silence";
    item.refused_as(&format!("for \"{name}\""), why, &remedy)
}

fn proxies(reader: &Reader<'_>) -> Result<Proxies, ConfigError> {
    let item = reader.item("http.trusted-proxies")?;
    let remedy =
        "write a list of networks: [\"10.0.0.0/8\", \"fd00::/8\"], and [\"192.0.2.7/32\"] for one machine";
    let networks: Vec<String> = item.value("it is no list of text", remedy)?;
    let network = |text: &String| {
        let why = format!("{text} is no network");
        text.parse().map_err(|_| item.refused(&why, remedy))
    };
    let trusted = networks.iter().map(network).collect::<Result<Vec<ipnet::IpNet>, _>>()?;
    if trusted.iter().any(|network| network.prefix_len() == 0) {
        let why = "it trusts everybody, so anybody may call themselves anything";
        return Err(item.refused(why, remedy));
    }
    let header = reader.one_of(
        "http.forwarded-header",
        &[("x-forwarded-for", ForwardedHeader::XForwardedFor), ("forwarded", ForwardedHeader::Forwarded)],
    )?;
    Ok(Proxies { trusted, header })
}
