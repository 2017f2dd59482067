//! Client address of a request: the address of its connection, or the address that trusted proxies report.
//!
//! **Invariant:** values written by the client itself are never used. Addresses are read from right to left. Each proxy
//! appends the address from which it received the request, so the first address that is not a trusted proxy is the
//! client.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Header in which proxies report the client's address. Exactly one header is read: a proxy that sets one of them
/// forwards the other as the client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Trusted reverse proxies.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// Networks of the trusted proxies; empty: forwarded addresses are ignored.
    pub trusted: Vec<IpNet>,
    /// Header that the proxies set.
    pub header: ForwardedHeader,
}

impl Proxies {
    /// The address of the client; `None` if the address of its connection is not known.
    pub fn client_of(&self, request: &Request) -> Option<IpAddr> {
        let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>()?;
        Some(self.client(peer.ip(), request.headers()))
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let (name, parse): (_, fn(&str) -> Option<IpAddr>) = match self.header {
            ForwardedHeader::XForwardedFor => (X_FORWARDED_FOR, parse_address),
            ForwardedHeader::Forwarded => (header::FORWARDED, parse_forwarded_for),
        };
        let mut client = peer.to_canonical();
        let lines = headers.get_all(name).iter().rev();
        for hop in lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',')) {
            if !self.trusts(client) {
                break;
            }
            match parse(hop.trim()) {
                Some(address) => client = address.to_canonical(),
                // The hop is obfuscated (RFC 7239 §6.3) or is not an address: use the address of the proxy that
                // reported it.
                None => break,
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|net| net.contains(&address))
    }
}

/// `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::7`, `[2001:db8::7]` or `[2001:db8::7]:4711`.
fn parse_address(text: &str) -> Option<IpAddr> {
    let unbracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    unbracketed.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// Parses the address in an element such as `for="[2001:db8::7]:4711";proto=https` (RFC 7239 §4). A comma inside quotes is
/// not supported: it splits the element.
fn parse_forwarded_for(element: &str) -> Option<IpAddr> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| parse_address(value.trim().trim_matches('"')))?
    })
}
