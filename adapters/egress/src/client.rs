//! The client.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::causes::with_causes;
use crate::connector::{ConnectError, Connector};
use crate::networks::Networks;
use crate::resolver::Resolver;
use crate::target::Target;
use crate::tls::{SetupError, authorities, tls_config};

/// Maximum size of the head of a response, in bytes.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Maximum number of bytes that are read from the body of a response.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// Time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason why a request got no complete response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The address of the host is not public. The request was not sent.
    #[error("refused: {0}")]
    Refused(String),
    /// The host name has no address.
    #[error("DNS: {0}")]
    Dns(String),
    /// No address of the host accepted the connection.
    #[error("connection: {0}")]
    Connect(String),
    /// The TLS handshake failed, for example because of the certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// The response was not complete in time. The receiver may have processed the request.
    #[error("no complete response within {0:?}")]
    Timeout(Duration),
    /// The connection ended, or the response is not HTTP. The receiver may have processed the request.
    #[error("HTTP: {0}")]
    Http(String),
}

/// The beginning of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressResponse {
    /// Status. Redirects are not followed.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// The first 16 KB of the body.
    pub body: Bytes,
    /// Whether the body was longer.
    pub is_truncated: bool,
}

/// Sends requests to URLs that users choose.
///
/// Redirects are not followed and proxies of the environment are not used. Connections are kept and used again.
#[derive(Clone)]
pub struct EgressClient {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
}

impl EgressClient {
    /// Creates a client. `additional` are certificates, in PEM, of certificate authorities besides those of this machine.
    pub fn new(
        networks: Networks,
        resolver: Arc<dyn Resolver>,
        additional: &[u8],
    ) -> Result<EgressClient, SetupError> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(authorities(additional)?)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector { networks, resolver });
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            // Only a request that was not begun is repeated, because the server had closed the connection. The caller
            // repeats the others, and counts them.
            .retry_canceled_requests(true)
            .build(connector);
        Ok(EgressClient { client })
    }

    /// Sends a POST request and reads the response, both within `deadline`.
    pub async fn post(
        &self,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        deadline: Duration,
    ) -> Result<EgressResponse, EgressError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = target.uri().clone();
        *request.headers_mut() = headers;
        let response = async {
            let response = self.client.request(request).await.map_err(|error| classify(&error))?;
            read(response).await
        };
        tokio::time::timeout(deadline, response).await.unwrap_or(Err(EgressError::Timeout(deadline)))
    }
}

impl fmt::Debug for EgressClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressClient").finish_non_exhaustive()
    }
}

/// Reads the beginning of the body. The connection of a longer one is closed.
async fn read(response: hyper::Response<Incoming>) -> Result<EgressResponse, EgressError> {
    let (head, mut body) = response.into_parts();
    let mut start = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| EgressError::Http(with_causes(&error)))?;
        if let Ok(data) = frame.into_data() {
            start.extend_from_slice(&data);
        }
        if start.len() > MAX_BODY_BYTES {
            break;
        }
    }
    let is_truncated = start.len() > MAX_BODY_BYTES;
    start.truncate(MAX_BODY_BYTES);
    Ok(EgressResponse { status: head.status, headers: head.headers, body: start.into(), is_truncated })
}

fn classify(error: &hyper_util::client::legacy::Error) -> EgressError {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(source) = next {
        if let Some(refused) = source.downcast_ref::<ConnectError>() {
            return match refused {
                ConnectError::Refused(why) => EgressError::Refused(why.clone()),
                ConnectError::Dns { .. } => EgressError::Dns(refused.to_string()),
                ConnectError::Unreachable { .. } => EgressError::Connect(refused.to_string()),
            };
        }
        if source.is::<rustls::Error>() {
            return EgressError::Tls(source.to_string());
        }
        // An I/O error may wrap an error without being its `source`.
        let wrapped = source.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => source.source(),
        };
    }
    if error.is_connect() {
        EgressError::Tls(with_causes(error))
    } else {
        EgressError::Http(with_causes(error))
    }
}
