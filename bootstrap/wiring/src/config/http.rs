//! Where the API listens, and what it takes on.

use std::net::SocketAddr;
use std::time::Duration;

use marketplace_http::WebOrigin;

use super::error::ConfigError;
use super::read::{Item, Reader};
use super::{HOUR, SECOND};

/// More at a time only wait for each other.
const MAX_CONCURRENT: u32 = 100_000;

/// What the API takes on, and where operators call it.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// `http.ops-listen`, if operators' calls have a listener of their own.
    pub ops_listen: Option<SocketAddr>,
    /// `http.cors-origins`.
    pub cors_origins: Vec<WebOrigin>,
    /// `http.concurrent-requests`.
    pub concurrent_requests: u32,
    /// `http.idle-timeout`.
    pub idle_timeout: Duration,
}

/// `http.listen`.
pub(super) fn listen(reader: &Reader<'_>) -> Result<SocketAddr, ConfigError> {
    address(&reader.item("http.listen")?)
}

/// `http.*` but `http.listen`, which is this.
pub(super) fn http(reader: &Reader<'_>, listen: SocketAddr) -> Result<HttpConfig, ConfigError> {
    let why = "with none at a time nobody is served, and with too many all of them wait";
    let idle_why =
        "too short breaks requests that a proxy sends meanwhile, too long keeps connections that nobody uses";
    let ops = reader.find("http.ops-listen");
    let ops_listen = ops.as_ref().map(address).transpose()?;
    if let Some(item) = ops.filter(|_| listen.port() != 0 && ops_listen == Some(listen)) {
        let error = item.refused("it is http.listen as well", "set another port, or leave it out");
        return Err(error.related_to(&["http.listen"]));
    }
    Ok(HttpConfig {
        ops_listen,
        cors_origins: origins(reader)?,
        concurrent_requests: reader.count("http.concurrent-requests", 1..=MAX_CONCURRENT, why)?,
        idle_timeout: reader.duration("http.idle-timeout", SECOND..=HOUR, idle_why)?,
    })
}

fn address(item: &Item<'_>) -> Result<SocketAddr, ConfigError> {
    item.text()?.parse().map_err(|_| {
        item.refused(
            "it is no address and port",
            "write 127.0.0.1:8080, [::1]:8080, or port 0 for any free one",
        )
    })
}

fn origins(reader: &Reader<'_>) -> Result<Vec<WebOrigin>, ConfigError> {
    let item = reader.item("http.cors-origins")?;
    let remedy = "write a list of origins, each as a browser sends it: [\"https://shop.example\"]";
    let origins: Vec<String> = item.value("it is no list of texts", remedy)?;
    let parsed = |origin: String| {
        WebOrigin::parse(&origin)
            .ok_or_else(|| item.refused("it has to be exact: scheme, host, port", remedy))
    };
    origins.into_iter().map(parsed).collect()
}
