//! The archive in a bucket, on an S3 server (moto) that verifies signatures and permissions.
//!
//! `tests/run` installs the server in the versions of `bucket/requirements.txt` and sets `HANDOVER_S3_SERVER` to the Python that
//! has it.

mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use handover_archive::ArchiveUrl;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::contract::{NAME, Rig, rules};
use server::{Keys, S3Server};

struct BucketRig {
    server: &'static S3Server,
    folder: String,
    archive: Arc<dyn ArchiveStorage>,
}

async fn rig() -> BucketRig {
    let server = S3Server::shared();
    let folder = server.new_folder();
    let archive = open(&format!("archive/{folder}"), &server.endpoint(), &server.writer, &[]);
    BucketRig { server, folder, archive }
}

rules!(rig);

/// Opens an archive. `bucket` may have a folder.
fn open(bucket: &str, endpoint: &str, keys: &Keys, variables: &[(&str, &str)]) -> Arc<dyn ArchiveStorage> {
    let url = ArchiveUrl::parse(&format!("s3://{bucket}?endpoint={endpoint}")).unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", keys.id.as_str()), ("AWS_SECRET_ACCESS_KEY", keys.secret.as_str())];
    let variables = keys.iter().chain(variables);
    url.open_with(variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).unwrap()
}

#[async_trait]
impl Rig for BucketRig {
    fn storage(&self) -> &dyn ArchiveStorage {
        &*self.archive
    }

    async fn stored(&self, file: &str) -> Vec<u8> {
        self.server.object(&format!("{}/{file}", self.folder))
    }

    async fn interrupted_write(&self, content: &[u8]) -> ArchiveStorageError {
        let (endpoint, _proxy) = interrupting_proxy(self.server.address).await;
        let archive = open(&format!("archive/{}", self.folder), &endpoint, &self.server.writer, &[]);
        archive.write(NAME, content).await.unwrap_err()
    }
}

/// A proxy that closes every connection after the server has got a part of the first request.
async fn interrupting_proxy(server: SocketAddr) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut proxy = JoinSet::new();
    proxy.spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(server).await.unwrap();
            copy(&mut client.take(100_000), &mut server).await.unwrap();
        }
    });
    (endpoint, proxy)
}

/// A server that sends this response to every request, and the end of the connection.
async fn responding(response: &'static str) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            // The requests of these tests have a small body, which arrives with the head or right after it.
            while !is_complete(&request) {
                assert_ne!(client.read_buf(&mut request).await.unwrap(), 0);
            }
            client.write_all(response.as_bytes()).await.unwrap();
        }
    });
    (endpoint, server)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.split("\r\ncontent-length: ").nth(1).map_or("0", |rest| rest.split("\r\n").next().unwrap());
    let start = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    request.len() - start >= length.parse::<usize>().unwrap()
}

/// The cause for which neither writing nor reading is possible.
async fn why(archive: &dyn ArchiveStorage) -> String {
    let cause = |error, what: &str| match error {
        ArchiveStorageError::Unavailable { what: found, why } => {
            assert_eq!(found, format!("{what} the file {NAME}"));
            why
        }
        other @ (ArchiveStorageError::Missing { .. } | ArchiveStorageError::Damaged { .. }) => {
            panic!("{other}")
        }
    };
    cause(archive.read(NAME, "").await.unwrap_err(), "read");
    cause(archive.write(NAME, b"content\n").await.unwrap_err(), "write")
}

#[tokio::test]
async fn files_are_below_the_folder_of_the_url() {
    let server = S3Server::shared();
    let folder = server.new_folder();
    let within = format!("{folder}/Of_this/service");
    let archive = open(&format!("archive/{within}"), &server.endpoint(), &server.writer, &[]);
    archive.write("a.jsonl", b"content\n").await.unwrap();
    assert!(!server.object(&format!("{within}/a.jsonl.zst")).is_empty());
    assert!(server.object("a.jsonl.zst").is_empty());
    let whole = open("archive", &server.endpoint(), &server.writer, &[]);
    whole.write(&format!("{folder}/b.jsonl"), b"content\n").await.unwrap();
    assert!(!server.object(&format!("{folder}/b.jsonl.zst")).is_empty());
}

#[tokio::test]
async fn server_of_the_environment_is_used_unless_the_url_names_one() {
    let server = S3Server::shared();
    let name = format!("{}/a.jsonl", server.new_folder());
    let unused = format!("http://{}", unused_address().await);
    let keys = [("AWS_ACCESS_KEY_ID", &server.writer.id), ("AWS_SECRET_ACCESS_KEY", &server.writer.secret)];
    let open = |url: &str, endpoints: &[(&str, &str)]| {
        let keys = keys.iter().map(|(name, value)| (*name, value.as_str()));
        let variables = keys.chain(endpoints.iter().copied());
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        ArchiveUrl::parse(url).unwrap().open_with(variables).unwrap()
    };
    let endpoint = server.endpoint();
    let archive = open("s3://archive", &[("AWS_ENDPOINT_URL", &endpoint)]);
    let written = archive.write(&name, b"content\n").await.unwrap();
    let others = [("AWS_ENDPOINT_URL", unused.as_str()), ("AWS_ENDPOINT_URL_S3", &unused)];
    let archive = open(&format!("s3://archive?endpoint={endpoint}"), &others);
    assert_eq!(archive.read(&name, &written.sha256).await.unwrap(), b"content\n");
}

#[tokio::test]
async fn temporary_credentials_need_their_token() {
    let server = S3Server::shared();
    let bucket = format!("archive/{}", server.new_folder());
    let token = [("AWS_SESSION_TOKEN", server.session_token.as_str())];
    let archive = open(&bucket, &server.endpoint(), &server.session, &token);
    let written = archive.write(NAME, b"content\n").await.unwrap();
    assert_eq!(archive.read(NAME, &written.sha256).await.unwrap(), b"content\n");
    let why = why(&*open(&bucket, &server.endpoint(), &server.session, &[])).await;
    assert!(why.contains("refuses the credentials (InvalidAccessKeyId)"), "{why}");
}

#[tokio::test]
async fn refused_credentials_and_missing_permissions_are_reported_without_the_secret() {
    let server = S3Server::shared();
    let endpoint = server.endpoint();
    let wrong = Keys { id: server.writer.id.clone(), secret: "hunter2hunter2".to_owned() };
    let unknown = Keys { id: "AKIAUNKNOWN".to_owned(), secret: "hunter2hunter2".to_owned() };
    for (keys, code) in [(&wrong, "SignatureDoesNotMatch"), (&unknown, "InvalidAccessKeyId")] {
        assert_eq!(
            why(&*open("archive", &endpoint, keys, &[])).await,
            format!(
                "{endpoint} refuses the credentials ({code}); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
                 AWS_SESSION_TOKEN"
            )
        );
    }
    assert_eq!(
        why(&*open("archive", &endpoint, &server.unprivileged, &[])).await,
        format!(
            "{endpoint} denies access (Access Denied); allow s3:GetObject, s3:PutObject, s3:DeleteObject and \
             s3:ListBucket for the bucket archive"
        )
    );
}

#[tokio::test]
async fn missing_bucket_is_no_missing_file() {
    let server = S3Server::shared();
    let archive = open("no-such-bucket", &server.endpoint(), &server.writer, &[]);
    let expected = format!("the bucket no-such-bucket does not exist at {}; create it", server.endpoint());
    assert_eq!(why(&*archive).await, expected);
}

#[tokio::test]
async fn machine_without_credentials_is_reported_with_their_variables() {
    let server = S3Server::shared();
    let url = ArchiveUrl::parse(&format!("s3://archive?endpoint={}", server.endpoint())).unwrap();
    // AWS provides credentials at an address that does not exist elsewhere.
    let unused = format!("http://{}", unused_address().await);
    let archive = url.open_with([("AWS_METADATA_ENDPOINT".to_owned(), unused)]).unwrap();
    let why = why(&*archive).await;
    assert!(why.starts_with("no credentials: the server of the credentials does not respond: "), "{why}");
    assert!(
        why.ends_with(
            "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where AWS provides credentials"
        ),
        "{why}"
    );
}

async fn unused_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn server_that_cannot_be_reached_or_does_not_respond_is_unavailable() {
    let keys = Keys { id: "AKIA".to_owned(), secret: "hunter2hunter2".to_owned() };
    let endpoint = format!("http://{}", unused_address().await);
    let why_unreachable = why(&*open("archive", &endpoint, &keys, &[])).await;
    assert!(why_unreachable.starts_with(&format!("{endpoint} does not respond: ")), "{why_unreachable}");
    assert!(why_unreachable.contains("refused"), "{why_unreachable}");
    // The kernel accepts its connections.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let archive = open("archive", &endpoint, &keys, &[("AWS_TIMEOUT", "100ms")]);
    assert_eq!(
        why(&*archive).await,
        format!(
            "{endpoint} does not respond: no complete response within 100ms; check its address and the network"
        )
    );
}

#[tokio::test]
async fn full_bucket_is_unavailable_and_keeps_the_code_of_the_server() {
    let keys = Keys { id: "AKIA".to_owned(), secret: "hunter2hunter2".to_owned() };
    let (endpoint, _server) = responding(
        "HTTP/1.1 507 Insufficient Storage\r\nconnection: close\r\ncontent-length: 105\r\n\r\n\
         <Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its minimum</Message></Error>\r\n",
    )
    .await;
    assert_eq!(
        why(&*open("archive", &endpoint, &keys, &[])).await,
        format!("{endpoint}: XMinioStorageFull: Storage backend has reached its minimum")
    );
}

#[tokio::test]
async fn page_of_another_server_is_no_missing_file() {
    let keys = Keys { id: "AKIA".to_owned(), secret: "hunter2hunter2".to_owned() };
    let (endpoint, _server) =
        responding("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 9\r\n\r\nnot found").await;
    let why = why(&*open("archive", &endpoint, &keys, &[])).await;
    assert!(why.contains("404 Not Found: not found"), "{why}");
}
