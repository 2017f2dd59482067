//! Where a request comes from: the address of its connection, or what proxies say that somebody trusts.
//!
//! **Invariant:** what a client writes itself is never believed: addresses are read from the right, each was written by the
//! hop after it, and the first that is no trusted proxy is the client.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;
use marketplace::ports::Party;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header in which proxies say for whom they ask. One of them alone: a proxy that writes one passes the other on as the
/// client wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The proxies that are believed.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// Where they are. None: nobody is believed.
    pub trusted: Vec<IpNet>,
    /// What they write.
    pub header: ForwardedHeader,
}

impl Proxies {
    /// Whose request it is, if nobody is signed in.
    pub(crate) fn party(&self, request: &Request) -> Party {
        match request.extensions().get::<ConnectInfo<SocketAddr>>() {
            Some(ConnectInfo(peer)) => Party::at(self.client(peer.ip(), request.headers())),
            None => Party::Unknown,
        }
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let (name, read): (_, fn(&str) -> Option<IpAddr>) = match self.header {
            ForwardedHeader::XForwardedFor => (X_FORWARDED_FOR, address),
            ForwardedHeader::Forwarded => (header::FORWARDED, forwarded_for),
        };
        let mut client = peer.to_canonical();
        let lines = headers.get_all(name).iter().rev();
        for hop in lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',')) {
            if !self.trusts(client) {
                break;
            }
            match read(hop.trim()) {
                Some(address) => client = address.to_canonical(),
                // Hidden, or not an address: this proxy is as far as we can see.
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
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// The address in an element such as `for="[2001:db8::7]:4711";proto=https` (RFC 7239 §4). A quoted comma cuts an element
/// in two, neither of which is read.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| address(value.trim().trim_matches('"')))?
    })
}
