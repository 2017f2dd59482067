//! Addresses, limits and trusted proxies of the HTTP API: `[http]`.

use std::net::SocketAddr;
use std::time::Duration;

use handover_http::{ForwardedHeader, Limits, Proxies, WebOrigin};

use crate::config::{Checked, ConfigError, HOUR, Item, Kind, Reader, SECOND};
use crate::descriptors;

/// The key of the API's address, which the flag `--listen` sets.
pub const LISTEN: &str = "http.listen";
/// The default of [`LISTEN`].
pub const LISTEN_DEFAULT: &str = "127.0.0.1:8080";
const OPS_LISTEN: &str = "http.ops-listen";
/// Maximum time for requests in flight to finish after the stop signal.
const DRAIN: Duration = Duration::from_secs(5);
/// Maximum of `http.concurrent-requests`.
const MAX_CONCURRENT_REQUESTS: u32 = 100_000;

/// `http.*` except `http.listen` and the trusted proxies.
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

impl HttpConfig {
    /// The limits of the server. The number of connections depends on the files that this process may open.
    pub fn limits(&self) -> Limits {
        let standard = Limits::default();
        let listeners = 1 + u32::from(self.ops_listen.is_some());
        Limits {
            drain: DRAIN,
            connections: descriptors::connection_limit(standard.connections, listeners),
            idle: self.idle_timeout,
            concurrent_requests: self.concurrent_requests,
            cors_origins: self.cors_origins.clone(),
            ..standard
        }
    }
}

/// Reads `http.listen`.
pub fn listen(reader: &Reader<'_>) -> Checked<SocketAddr> {
    reader.key(Kind::Text, LISTEN, LISTEN_DEFAULT, address)
}

/// Reads `http.*`, except `http.listen` and the trusted proxies; `listen` is the value of `http.listen`.
pub fn http(reader: &Reader<'_>, listen: Checked<SocketAddr>) -> Checked<HttpConfig> {
    let ops_listen = ops_listen(reader, listen);
    let cors_origins = reader.key(Kind::Value, "http.cors-origins", "[]", origins);
    let why = "with 0 no request is served, and too many concurrent requests only wait for each other";
    let concurrent_requests =
        reader.count("http.concurrent-requests", "512", 1..=MAX_CONCURRENT_REQUESTS, why);
    let why = "a short timeout closes connections that a proxy is about to reuse, a long one keeps unused connections open";
    let idle_timeout = reader.duration("http.idle-timeout", "75s", SECOND..=HOUR, why);
    Ok(HttpConfig {
        ops_listen: ops_listen?,
        cors_origins: cors_origins?,
        concurrent_requests: concurrent_requests?,
        idle_timeout: idle_timeout?,
    })
}

/// Reads `http.ops-listen`; `listen` is the value of `http.listen`.
fn ops_listen(reader: &Reader<'_>, listen: Checked<SocketAddr>) -> Checked<Option<SocketAddr>> {
    let ops_listen = reader.optional(Kind::Text, OPS_LISTEN, address)?;
    if ops_listen.is_some_and(|ops_listen| ops_listen.port() != 0 && listen == Ok(ops_listen)) {
        let item = reader.item(OPS_LISTEN);
        let error =
            item.refused("it is the same address as http.listen", "set another port, or remove the key");
        return Err(reader.report(error.related_to(&[LISTEN])));
    }
    Ok(ops_listen)
}

fn address(item: &Item) -> Result<SocketAddr, ConfigError> {
    address_of(item, "write 127.0.0.1:8080, [::1]:8080, or port 0 for any free port")
}

/// The address to listen on that a setting has; the error has this remedy.
pub(super) fn address_of(item: &Item, remedy: &str) -> Result<SocketAddr, ConfigError> {
    item.as_text()?.parse().map_err(|_| item.refused("it is not an address with a port", remedy))
}

fn origins(item: &Item) -> Result<Vec<WebOrigin>, ConfigError> {
    let remedy = "write a list of origins, each as a browser sends it: [\"https://shop.example\"]";
    let origins: Vec<String> = item.parse("it is not a list of strings", remedy)?;
    let parsed = |origin: String| {
        WebOrigin::parse(&origin)
            .ok_or_else(|| item.refused("an origin is exactly scheme, host and port", remedy))
    };
    origins.into_iter().map(parsed).collect()
}

/// Reads `http.trusted-proxies` and `http.forwarded-header`.
pub fn proxies(reader: &Reader<'_>) -> Checked<Proxies> {
    let trusted = reader.key(Kind::Value, "http.trusted-proxies", "[]", |item| {
        networks(item, "the list trusts every address, so every client could forge its address")
    });
    let header = reader.one_of(
        "http.forwarded-header",
        &[("x-forwarded-for", ForwardedHeader::XForwardedFor), ("forwarded", ForwardedHeader::Forwarded)],
    );
    Ok(Proxies { trusted: trusted?, header: header? })
}

/// A list of networks. `all` says why it must not contain every address.
pub(super) fn networks(item: &Item, all: &str) -> Result<Vec<ipnet::IpNet>, ConfigError> {
    let remedy =
        "write a list of networks: [\"10.0.0.0/8\", \"fd00::/8\"], and [\"192.0.2.7/32\"] for one machine";
    let networks: Vec<String> = item.parse("it is not a list of strings", remedy)?;
    let network = |text: &String| {
        let why = format!("{text} is not a network");
        text.parse().map_err(|_| item.refused(&why, remedy))
    };
    let trusted = networks.iter().map(network).collect::<Result<Vec<ipnet::IpNet>, _>>()?;
    if trusted.iter().any(|network| network.prefix_len() == 0) {
        return Err(item.refused(all, remedy));
    }
    Ok(trusted)
}
