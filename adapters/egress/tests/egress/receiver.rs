//! Receivers and resolvers of the tests.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use handover_egress::{EgressClient, Networks, Resolved, Resolver};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) const AUTHORITY: &[u8] = include_bytes!("authority.pem");

/// Answers a name with the next of its lists of addresses; the last one is repeated.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn of(name: &str, answers: &[&[&str]]) -> Arc<Names> {
        let answers = answers.iter().map(|answer| answer.iter().map(|it| it.parse().unwrap()).collect());
        let answers = BTreeMap::from([(name.to_owned(), answers.rev().collect())]);
        Arc::new(Names { answers: Mutex::new(answers), asked: Mutex::default() })
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolved<'a> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = answers
            .get_mut(host)
            .and_then(|left| if left.len() > 1 { left.pop() } else { left.last().cloned() });
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// A client that may reach 127.0.0.0/8.
pub(crate) fn client(names: Arc<Names>) -> EgressClient {
    let networks = Networks::public_and(vec!["127.0.0.0/8".parse().unwrap()]);
    EgressClient::new(networks, names, AUTHORITY).unwrap()
}

/// A server that counts its connections and answers every request with `response`.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
}

pub(crate) async fn receiver(response: &str, is_encrypted: bool) -> Receiver {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let response: Arc<str> = response.into();
    let acceptor = is_encrypted.then(acceptor);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let (response, acceptor) = (Arc::clone(&response), acceptor.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => answer(stream, &response).await,
                    Some(acceptor) => {
                        // A client that refuses the certificate ends the connection.
                        if let Ok(stream) = acceptor.accept(stream).await {
                            answer(stream, &response).await;
                        }
                    }
                }
            });
        }
    });
    Receiver { address, connections }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, response: &str) {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut part).await {
        request.extend_from_slice(&part[..read]);
        // The bodies of the tests end with this line.
        if request.ends_with(b"end") {
            request.clear();
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("server.key")).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
