//! URLs that requests may be sent to.

use std::net::{IpAddr, SocketAddr};

use hyper::Uri;
use rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::networks::{Networks, RefusedAddress};

/// Maximum length of a URL, in bytes.
pub const MAX_URL_BYTES: usize = 2048;
/// The ports that are open outside of named networks.
const PORTS: [u16; 2] = [443, 8443];

/// Reason why a URL is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedUrl {
    /// The text is not a URL.
    #[error("not a URL: {0}")]
    Invalid(String),
    /// The URL is too long.
    #[error("the URL has {0} bytes; at most {MAX_URL_BYTES} are allowed")]
    TooLong(usize),
    /// The scheme is neither `https` nor `http`.
    #[error("the scheme must be https, not {0}")]
    Scheme(String),
    /// The scheme is `http`, and the host is not in a named network.
    #[error("http is only allowed in networks that are named in the configuration; use https")]
    Unencrypted,
    /// The port is closed outside of named networks.
    #[error("port {0} is only allowed in networks that are named in the configuration; use 443 or 8443")]
    Port(u16),
    /// The URL contains user name or password.
    #[error("a URL must not contain a user name or a password; use a header")]
    UserInfo,
    /// The host is a name without a dot, which only resolves inside a network.
    #[error("the host {0} is not a public name")]
    LocalName(String),
    /// The host is this service.
    #[error("the host {0} is this service itself")]
    OwnHost(String),
    /// The host is an address that is not public.
    #[error(transparent)]
    Address(#[from] RefusedAddress),
}

/// A host name as it is in a parsed URL, without a dot at its end: in lower case and punycode. `None` for other texts, also for
/// addresses.
pub fn host_name(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(name) => Some(name.strip_suffix('.').unwrap_or(&name).to_owned()),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// A URL that was checked. The addresses of its host are checked at each connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    uri: Uri,
}

impl Target {
    /// The URL as it is requested: host in lower case and punycode, without fragment.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }
}

/// The rules for URLs.
#[derive(Debug, Clone, Default)]
pub struct UrlRules {
    /// The networks that requests may be sent to.
    pub networks: Networks,
    /// Names of this service, to which it sends no request, in the form of [`host_name`].
    pub own_hosts: Vec<String>,
}

impl UrlRules {
    /// Checks a URL. A host name is not resolved: it may have other addresses when a request is sent, so they are checked
    /// then.
    pub fn check(&self, text: &str) -> Result<Target, RefusedUrl> {
        if text.len() > MAX_URL_BYTES {
            return Err(RefusedUrl::TooLong(text.len()));
        }
        let mut url = Url::parse(text).map_err(|error| RefusedUrl::Invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(RefusedUrl::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RefusedUrl::UserInfo);
        }
        match url.host() {
            None => return Err(RefusedUrl::Invalid("no host".to_owned())),
            Some(Host::Ipv4(address)) => self.check_literal(&url, IpAddr::V4(address))?,
            Some(Host::Ipv6(address)) => self.check_literal(&url, IpAddr::V6(address))?,
            Some(Host::Domain(name)) => self.check_name(&url, name)?,
        }
        url.set_fragment(None);
        let uri = url.as_str().parse().map_err(|error| RefusedUrl::Invalid(format!("{error}")))?;
        Ok(Target { uri })
    }

    fn check_literal(&self, url: &Url, address: IpAddr) -> Result<(), RefusedUrl> {
        self.networks.check(address)?;
        if self.networks.is_own(SocketAddr::new(address, port(url))) {
            return Err(RefusedUrl::OwnHost(address.to_string()));
        }
        check_url_access(url, self.networks.names(address))
    }

    fn check_name(&self, url: &Url, name: &str) -> Result<(), RefusedUrl> {
        if ServerName::try_from(name).is_err() {
            return Err(RefusedUrl::Invalid(format!("{name} is not a host name")));
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        if self.own_hosts.iter().any(|own| own == name) {
            return Err(RefusedUrl::OwnHost(name.to_owned()));
        }
        let is_local = |suffix: &str| name == suffix || name.ends_with(&format!(".{suffix}"));
        if !name.contains('.') || ["localhost", "local", "internal"].into_iter().any(is_local) {
            // A network that is named in the configuration may use such names.
            if self.networks.is_public_only() {
                return Err(RefusedUrl::LocalName(name.to_owned()));
            }
        }
        // Whether a name is in a named network is known when it is resolved.
        check_url_access(url, !self.networks.is_public_only())
    }
}

fn check_url_access(url: &Url, may_be_named: bool) -> Result<(), RefusedUrl> {
    check_access(url.scheme() == "https", port(url), may_be_named)
}

fn port(url: &Url) -> u16 {
    url.port_or_known_default().unwrap_or_default()
}

/// Refuses plain HTTP and unusual ports outside of named networks.
pub(crate) fn check_access(is_encrypted: bool, port: u16, is_named: bool) -> Result<(), RefusedUrl> {
    match (is_named, is_encrypted) {
        (true, _) => Ok(()),
        (false, false) => Err(RefusedUrl::Unencrypted),
        (false, true) if PORTS.contains(&port) => Ok(()),
        (false, true) => Err(RefusedUrl::Port(port)),
    }
}
