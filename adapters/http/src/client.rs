//! Where a request comes from: the address of its connection, or what proxies say that somebody trusts.
//!
//! **Invariant:** what a client writes itself is never believed: addresses are read from the right, each was written by the
//! hop after it, and the first that is no trusted proxy is the client.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, HeaderName, header};
use handover_application::ports::Party;
use ipnet::IpNet;

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

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn proxies(header: ForwardedHeader) -> Proxies {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).to_vec();
        Proxies { trusted, header }
    }

    fn client(header: ForwardedHeader, peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        let name = match header {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        };
        for line in lines {
            headers.append(name, line.parse().unwrap());
        }
        proxies(header).client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn the_first_hop_from_the_right_that_is_no_trusted_proxy_is_the_client() {
        let client = |peer, lines: &[&str]| client(ForwardedHeader::XForwardedFor, peer, lines);
        assert_eq!(client(PROXY, &["192.0.2.7"]), "192.0.2.7");
        assert_eq!(
            client(PROXY, &["198.51.100.1, 192.0.2.7"]),
            "192.0.2.7",
            "the first is the client's word"
        );
        assert_eq!(client(PROXY, &["192.0.2.7,10.9.9.9"]), "192.0.2.7");
        assert_eq!(client(PROXY, &["198.51.100.1", "192.0.2.7, 10.9.9.9"]), "192.0.2.7");
        assert_eq!(client("fd00::1", &["2001:db8::7"]), "2001:db8::7");
        assert_eq!(client("::ffff:10.0.0.1", &["[2001:db8::7]:4711"]), "2001:db8::7");
        assert_eq!(client(PROXY, &["192.0.2.7:4711"]), "192.0.2.7");
        assert_eq!(client(PROXY, &["10.1.1.1, 10.2.2.2"]), "10.1.1.1");
    }

    #[test]
    fn strangers_are_not_believed_and_what_is_hidden_ends_the_search() {
        let client = |peer, lines: &[&str]| client(ForwardedHeader::XForwardedFor, peer, lines);
        assert_eq!(client("192.0.2.9", &["198.51.100.1"]), "192.0.2.9");
        assert_eq!(client(PROXY, &[]), PROXY);
        assert_eq!(client(PROXY, &[""]), PROXY);
        assert_eq!(client(PROXY, &["192.0.2.7, unknown"]), PROXY);
        assert_eq!(client(PROXY, &["192.0.2.7, nonsense, 10.9.9.9"]), "10.9.9.9");
    }

    #[test]
    fn the_header_of_the_specification_is_read_where_it_is_configured() {
        let client = |lines: &[&str]| client(ForwardedHeader::Forwarded, PROXY, lines);
        assert_eq!(client(&["for=192.0.2.7"]), "192.0.2.7");
        assert_eq!(client(&["For=\"[2001:db8::7]:4711\";proto=https;by=10.0.0.1"]), "2001:db8::7");
        assert_eq!(client(&["for=198.51.100.1, proto=http; for=192.0.2.7 , for=10.9.9.9"]), "192.0.2.7");
        assert_eq!(client(&["for=_hidden"]), PROXY);
        assert_eq!(client(&["for=\"192.0.2.7, for=198.51.100.1\""]), "198.51.100.1");
        assert_eq!(client(&["proto=https"]), PROXY);
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "192.0.2.7".parse().unwrap());
        let of_forwarded = proxies(ForwardedHeader::Forwarded);
        assert_eq!(of_forwarded.client(PROXY.parse().unwrap(), &headers).to_string(), PROXY);
    }
}
