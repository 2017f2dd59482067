//! HTTP of the object store: hyper and rustls with ring, as in the other adapters.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use handover_egress::with_causes;
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::ClientConfig;

/// Timeout of one request, from the connection to the end of the response. `AWS_TIMEOUT` changes it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout of a connection. `AWS_CONNECT_TIMEOUT` changes it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeouts, which the environment can change.
pub(super) fn options() -> ClientOptions {
    ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT)
}

/// Creates clients with the timeouts that the object store asks for. Its other options have no effect: no proxy of the
/// environment is used.
#[derive(Debug)]
pub(super) struct Connector {
    tls: ClientConfig,
}

impl Connector {
    pub(super) fn new(tls: ClientConfig) -> Connector {
        Connector { tls }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut connector = TcpConnector::new();
        connector.set_nodelay(true);
        connector.enforce_http(false);
        connector.set_connect_timeout(duration(options, ClientConfigKey::ConnectTimeout)?);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let timeout = duration(options, ClientConfigKey::Timeout)?;
        Ok(HttpClient::new(Transport { client, timeout: timeout.unwrap_or(REQUEST_TIMEOUT) }))
    }
}

fn duration(options: &ClientOptions, key: ClientConfigKey) -> object_store::Result<Option<Duration>> {
    let text = options.get_config_value(&key);
    let duration = text.map(|text| humantime::parse_duration(&text)).transpose();
    duration.map_err(|error| object_store::Error::Generic { store: "S3", source: error.into() })
}

#[derive(Debug)]
struct Transport {
    client: Client<HttpsConnector<TcpConnector>, HttpRequestBody>,
    timeout: Duration,
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = async {
            let response = self.client.request(request).await.map_err(|error| {
                let kind =
                    if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
                HttpError::new_boxed(kind, with_causes(&error).into())
            })?;
            let (head, body) = response.into_parts();
            let body = body.collect().await;
            let body = body.map_err(|error| {
                HttpError::new_boxed(HttpErrorKind::Interrupted, with_causes(&error).into())
            })?;
            Ok(HttpResponse::from_parts(head, body.to_bytes().into()))
        };
        tokio::time::timeout(self.timeout, response).await.unwrap_or_else(|_| {
            let why = format!("no complete response within {:?}", self.timeout);
            Err(HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, why)))
        })
    }
}
