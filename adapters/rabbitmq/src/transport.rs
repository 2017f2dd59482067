//! Byte streams to a node, plain or TLS, and the runtime kit through which lapin accepts them.
//!
//! lapin's own TLS features always compile a reader of PKCS#12 files for client certificates (`p12-keystore` and over
//! 30 crates), which is not used here. lapin is therefore built without TLS, and this module does the handshake with
//! `tokio-rustls`. [`Connection::connector`](lapin::Connection::connector) accepts the stream of any reactor: the kit
//! here is lapin's usual one for Tokio, except that its reactor uses [`ByteStream`] as stream type.
//!
//! **Invariant:** connections are opened only by [`dial`]. Built without TLS, lapin would connect to an `amqps` URL
//! in plain text without an error.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_compat::Compat;
use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use lapin::uri::AMQPScheme;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::settings::{Host, RabbitSettings};

/// A connected stream: a TCP connection, or TLS over one.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connected stream with the traits that lapin reads and writes through.
pub(crate) type ByteStream = Compat<Box<dyn Duplex>>;

/// The runtime of lapin's connections.
pub(crate) type LapinRuntime = Runtime<RuntimeParts<Tokio, ByteStreamReactor>>;

/// Tokio's reactor, with [`ByteStream`] as the type of its connections.
#[derive(Debug, Clone)]
pub(crate) struct ByteStreamReactor(Tokio);

impl Reactor for ByteStreamReactor {
    type TcpStream = ByteStream;
    type Sleep = <Tokio as Reactor>::Sleep;

    /// Always fails: lapin registers no socket, and the trait that a registered socket must implement cannot be named
    /// outside `async-rs`.
    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl futures_util::AsyncRead + futures_util::AsyncWrite + Send + Unpin + 'static> {
        Err::<ByteStream, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl futures_util::Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<ByteStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(byte_stream(connecting.await?.into_inner())) }
    }
}

/// Creates the runtime kit on the current Tokio runtime. MUST be called within a Tokio runtime.
pub(crate) fn runtime() -> LapinRuntime {
    let tokio = Tokio::current();
    Runtime::new(RuntimeParts::new(tokio.clone(), ByteStreamReactor(tokio)))
}

fn byte_stream(stream: impl Duplex + 'static) -> ByteStream {
    Compat::new(Box::new(stream))
}

/// Connects to a node's port within the connect timeout, encrypted for `amqps`. Returns the stream and a
/// second handle of its socket.
pub(crate) async fn dial(settings: &RabbitSettings, host: &Host) -> io::Result<(ByteStream, StdTcpStream)> {
    within_connect_timeout(settings, async {
        let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
        stream.set_nodelay(true)?;
        let stream = stream.into_std()?;
        let handle = stream.try_clone()?;
        let stream = TcpStream::from_std(stream)?;
        let is_encrypted = settings.uri.scheme == AMQPScheme::AMQPS;
        Ok((Compat::new(secured(settings, host, stream, is_encrypted).await?), handle))
    })
    .await
}

/// Connects to another port within the connect timeout, with the same certificate authorities.
pub(crate) async fn dial_port(
    settings: &RabbitSettings,
    host: &Host,
    is_encrypted: bool,
) -> io::Result<Box<dyn Duplex>> {
    within_connect_timeout(settings, async {
        let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
        secured(settings, host, stream, is_encrypted).await
    })
    .await
}

async fn within_connect_timeout<T>(
    settings: &RabbitSettings,
    dialling: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let limit = settings.connect_timeout;
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}"));
    tokio::time::timeout(limit, dialling).await.unwrap_or_else(|_| Err(late()))
}

/// Encrypts the stream if required.
async fn secured(
    settings: &RabbitSettings,
    host: &Host,
    stream: TcpStream,
    is_encrypted: bool,
) -> io::Result<Box<dyn Duplex>> {
    if !is_encrypted {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.name.clone())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let connector = TlsConnector::from(Arc::new(client_config(settings.authorities.as_deref())?));
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// TLS with ring. Trusts the public authorities and the given ones (PEM).
fn client_config(authorities: Option<&str>) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    if let Some(pem) = authorities {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let unreadable = |error| {
            let why = format!("the CA file of RabbitMQ is not valid PEM: {error}");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        roots.add_parsable_certificates(certificates.map_err(unreadable)?);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use futures_util::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The first byte of every TLS connection: a record of the handshake.
    const TLS_HANDSHAKE: u8 = 22;

    async fn listener(scheme: &str) -> (TcpListener, RabbitSettings) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        (listener, RabbitSettings::parse(&url).unwrap())
    }

    async fn accepted(listener: TcpListener) -> ByteStream {
        byte_stream(listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn amqps_connection_starts_with_a_tls_handshake_and_fails_when_the_peer_is_not_tls() {
        let (listener, settings) = listener("amqps").await;
        let peer = async {
            let mut peer = accepted(listener).await;
            let mut first = [0];
            peer.read_exact(&mut first).await.unwrap();
            peer.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
            first
        };
        let (dialled, first) = tokio::join!(dial(&settings, &settings.hosts[0]), peer);
        assert_eq!(first, [TLS_HANDSHAKE]);
        assert!(dialled.is_err());
    }

    #[tokio::test]
    async fn amqps_connection_times_out_when_the_peer_does_not_reply_to_the_handshake() {
        let (listener, mut settings) = listener("amqps").await;
        settings.connect_timeout = Duration::from_millis(50);
        let error = dial(&settings, &settings.hosts[0]).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "no connection within 50ms");
        drop(listener);
    }

    #[tokio::test]
    async fn amqp_connection_carries_bytes_unencrypted() {
        let (listener, settings) = listener("amqp").await;
        let (dialled, mut peer) = tokio::join!(dial(&settings, &settings.hosts[0]), accepted(listener));
        let (mut stream, _) = dialled.unwrap();
        stream.write_all(b"AMQP").await.unwrap();
        stream.flush().await.unwrap();
        let mut read = [0; 4];
        peer.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"AMQP");
    }

    #[test]
    fn invalid_ca_file_is_rejected_with_the_reason() {
        let broken = "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n";
        let error = client_config(Some(broken)).unwrap_err();
        assert!(error.to_string().starts_with("the CA file of RabbitMQ is not valid PEM: "), "{error}");
    }

    #[tokio::test]
    async fn kit_connects_in_plain_text_and_registers_no_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let runtime = runtime();
        let address = listener.local_addr().unwrap();
        let (connected, mut peer) = tokio::join!(runtime.tcp_connect_addr(address), accepted(listener));
        connected.unwrap().write_all(b"x").await.unwrap();
        let mut read = [0];
        peer.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"x");
        let socket = StdTcpStream::connect(address);
        assert!(socket.is_err() || runtime.register(socket.unwrap()).is_err());
    }
}
