//! Addresses and limits of the HTTP API: `[http]`.

use std::net::SocketAddr;
use std::time::Duration;

use marketplace_http::WebOrigin;

use super::error::ConfigError;
use super::read::{Item, Reader};
use super::{HOUR, SECOND};

/// Upper bound of `http.concurrent-requests`; more requests at a time only wait for each other.
const MAX_CONCURRENT_REQUESTS: u32 = 100_000;

/// `http.*` except `http.listen`.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// `http.ops-listen`: separate listener for operators' calls.
    pub ops_listen: Option<SocketAddr>,
    /// `http.cors-origins`.
    pub cors_origins: Vec<WebOrigin>,
    /// `http.concurrent-requests`.
    pub concurrent_requests: u32,
    /// `http.idle-timeout`.
    pub idle_timeout: Duration,
}

/// Reads `http.listen`.
pub(super) fn listen(reader: &Reader<'_>) -> Result<SocketAddr, ConfigError> {
    address(&reader.item("http.listen")?)
}

/// Reads `http.*` except `http.listen`, whose value is passed in.
pub(super) fn http(reader: &Reader<'_>, listen: SocketAddr) -> Result<HttpConfig, ConfigError> {
    let why = "0 would serve no request, and too many at a time only wait for each other";
    let idle_why = "a short timeout closes connections that a proxy is about to reuse, a long one keeps unused connections open";
    let ops = reader.find("http.ops-listen");
    let ops_listen = ops.as_ref().map(address).transpose()?;
    if let Some(item) = ops.filter(|_| listen.port() != 0 && ops_listen == Some(listen)) {
        let error =
            item.refused("it is the same address as http.listen", "set another port, or leave it out");
        return Err(error.related_to(&["http.listen"]));
    }
    Ok(HttpConfig {
        ops_listen,
        cors_origins: origins(reader)?,
        concurrent_requests: reader.count("http.concurrent-requests", 1..=MAX_CONCURRENT_REQUESTS, why)?,
        idle_timeout: reader.duration("http.idle-timeout", SECOND..=HOUR, idle_why)?,
    })
}

fn address(item: &Item<'_>) -> Result<SocketAddr, ConfigError> {
    item.text()?.parse().map_err(|_| {
        item.refused(
            "it is not an address with a port",
            "write 127.0.0.1:8080, [::1]:8080, or port 0 for a free one",
        )
    })
}

fn origins(reader: &Reader<'_>) -> Result<Vec<WebOrigin>, ConfigError> {
    let item = reader.item("http.cors-origins")?;
    let remedy = "write a list of origins, each as a browser sends it: [\"https://shop.example\"]";
    let origins: Vec<String> = item.value("it is not a list of strings", remedy)?;
    let parsed = |origin: String| {
        WebOrigin::parse(&origin)
            .ok_or_else(|| item.refused("an origin is exactly scheme, host and port", remedy))
    };
    origins.into_iter().map(parsed).collect()
}
