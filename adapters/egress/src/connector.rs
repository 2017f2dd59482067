//! Connections to checked addresses.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use crate::networks::Networks;
use crate::resolver::Resolver;
use crate::target::{RefusedUrl, check_access};

/// Time after which the next address of a host is tried.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason why no connection was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Refused(String),
    #[error("cannot resolve {host}: {error}")]
    Dns { host: String, error: String },
    #[error("cannot connect to {host}: {error}")]
    Unreachable { host: String, error: io::Error },
}

/// Connects to the addresses of a host. The name is resolved once per connection, every address of it is checked, and the
/// connection is made to a checked address: an answer of the name server cannot change in between.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) networks: Networks,
    pub(crate) resolver: Arc<dyn Resolver>,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TcpStream, ConnectError> {
        let host = uri.host().unwrap_or_default();
        let is_encrypted = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let addresses = self.checked_addresses(host, is_encrypted, port).await?;
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            let attempt = TcpStream::connect(SocketAddr::new(address, port));
            match tokio::time::timeout(ADDRESS_TIMEOUT, attempt).await {
                Ok(Ok(stream)) => {
                    // Without it, a request in two packets waits for an acknowledgement.
                    stream.set_nodelay(true).ok();
                    return Ok(stream);
                }
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::Error::from(io::ErrorKind::TimedOut),
            }
        }
        Err(ConnectError::Unreachable { host: host.to_owned(), error: failed })
    }

    /// The addresses of the host. A host with one refused address is refused whole.
    async fn checked_addresses(
        &self,
        host: &str,
        is_encrypted: bool,
        port: u16,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let (addresses, is_literal) = match literal(host) {
            Some(address) => (vec![address], true),
            None => (self.resolve(host).await?, false),
        };
        for &address in &addresses {
            match self.networks.check(address) {
                Err(refused) if is_literal => return Err(ConnectError::Refused(refused.to_string())),
                // Without the address: the names of an internal network are not for those who choose URLs.
                Err(_) => {
                    return Err(ConnectError::Refused(format!("{host} has an address that is not public")));
                }
                Ok(()) => {}
            }
            if self.networks.is_own(SocketAddr::new(address, port)) {
                return Err(ConnectError::Refused(RefusedUrl::OwnHost(host.to_owned()).to_string()));
            }
            check_access(is_encrypted, port, self.networks.names(address))
                .map_err(|refused| ConnectError::Refused(refused.to_string()))?;
        }
        Ok(addresses)
    }

    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let failed = |error: String| ConnectError::Dns { host: host.to_owned(), error };
        let addresses = self.resolver.resolve(host).await.map_err(|error| failed(error.to_string()))?;
        if addresses.is_empty() { Err(failed("the name has no address".to_owned())) } else { Ok(addresses) }
    }
}

/// The address, if the host of a URI is one; a URI has brackets around an IPv6 address.
fn literal(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new) })
    }
}
