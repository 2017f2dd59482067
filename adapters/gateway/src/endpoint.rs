//! URL of a gateway.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// Base URL of a gateway: `https://...`, or `http://...` on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL without a trailing slash.
    base: String,
    encrypted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("it has no scheme or no host")]
    NoUrl,
    #[error("only https:// and http:// are supported")]
    Scheme,
    #[error("a user name or password in a URL would appear in logs; requests are signed with gateway.secret")]
    Password,
    #[error("a path is appended to the URL, so it must not have a query or a fragment")]
    Query,
    #[error("plain http:// to another machine could be read and forged on the network")]
    PlainText,
}

impl Endpoint {
    pub fn parse(url: &str) -> Result<Endpoint, EndpointError> {
        if url.contains(['?', '#']) {
            return Err(EndpointError::Query);
        }
        let uri: Uri = url.parse().map_err(|_| EndpointError::NoUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(EndpointError::NoUrl);
        };
        let encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(EndpointError::Scheme),
        };
        if authority.as_str().contains('@') {
            return Err(EndpointError::Password);
        }
        if authority.host().is_empty() {
            return Err(EndpointError::NoUrl);
        }
        if !encrypted && !is_this_machine(authority.host()) {
            return Err(EndpointError::PlainText);
        }
        Ok(Endpoint { base: url.trim_end_matches('/').to_owned(), encrypted })
    }

    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The address to connect to: `host:port`.
    pub fn address(&self) -> String {
        let uri: Option<Uri> = self.base.parse().ok();
        let default = if self.encrypted { 443 } else { 80 };
        let named = uri.as_ref().and_then(|uri| Some((uri.host()?, uri.port_u16().unwrap_or(default))));
        named.map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
    }

    /// The URL of a path below the base URL.
    pub(crate) fn at(&self, path: &str) -> Result<Uri, EndpointError> {
        format!("{}{path}", self.base).parse().map_err(|_| EndpointError::NoUrl)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // RFC 6761, 6.3: `localhost` always resolves to the loopback interface.
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
