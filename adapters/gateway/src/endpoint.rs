//! Where a gateway is.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// Where a gateway is: `https://...`, or `http://...` on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Without a slash at its end.
    base: String,
    encrypted: bool,
}

/// Why no gateway is asked there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// No scheme, no host, or neither.
    #[error("it is no URL of a server")]
    NoUrl,
    /// Another scheme.
    #[error("a gateway is asked over HTTP, by no other scheme")]
    Scheme,
    /// A name or a password before the host.
    #[error("a password in a URL ends in logs; requests are signed with gateway.secret")]
    Password,
    /// A query or a fragment.
    #[error("a path follows it, so it can have no query and no fragment")]
    Query,
    /// `http://` to another machine.
    #[error("plain http:// to another machine would show and trust anybody's word about money on the way")]
    PlainText,
}

impl Endpoint {
    /// What this URL names.
    pub fn parse(url: &str) -> Result<Endpoint, BadEndpoint> {
        if url.contains(['?', '#']) {
            return Err(BadEndpoint::Query);
        }
        let uri: Uri = url.parse().map_err(|_| BadEndpoint::NoUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(BadEndpoint::NoUrl);
        };
        let encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(BadEndpoint::Scheme),
        };
        if authority.as_str().contains('@') {
            return Err(BadEndpoint::Password);
        }
        if authority.host().is_empty() {
            return Err(BadEndpoint::NoUrl);
        }
        if !encrypted && !is_this_machine(authority.host()) {
            return Err(BadEndpoint::PlainText);
        }
        Ok(Endpoint { base: url.trim_end_matches('/').to_owned(), encrypted })
    }

    /// Whether the way there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// What to connect to: `host:port`.
    pub fn address(&self) -> String {
        let uri: Option<Uri> = self.base.parse().ok();
        let default = if self.encrypted { 443 } else { 80 };
        let named = uri.as_ref().and_then(|uri| Some((uri.host()?, uri.port_u16().unwrap_or(default))));
        named.map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
    }

    /// The address of something there.
    pub(crate) fn at(&self, path: &str) -> Result<Uri, BadEndpoint> {
        format!("{}{path}", self.base).parse().map_err(|_| BadEndpoint::NoUrl)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // RFC 6761, 6.3: the name is that of no other machine.
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
