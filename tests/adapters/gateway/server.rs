//! A scripted HTTP gateway that records its requests. It serves one request per connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The scripted reply to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A response with a status and a text body.
    Text(u16, &'static str),
    /// A response with a status and a binary body.
    Bytes(u16, Vec<u8>),
    /// A response with a status and a `Location` header.
    Redirect(u16, String),
    /// A response with a status and a body that never ends.
    EndlessBody(u16),
    /// A response with a status and a body whose last byte is never sent; the connection stays open.
    PartialBody(u16, &'static str),
    /// No response; the connection stays open.
    Silence,
    /// Closes the connection without a response.
    Close,
}

/// A request as it was received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts a server that sends these replies in turn, then repeats the last one.
    pub(crate) async fn start(replies: &[Reply]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let recorded = Arc::clone(&requests);
        let replies = replies.to_vec();
        let serving = tokio::spawn(async move {
            let mut number = 0;
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let reply = replies[number.min(replies.len() - 1)].clone();
                number += 1;
                let recorded = Arc::clone(&recorded);
                tokio::spawn(async move {
                    if let Some(request) = read(&mut stream).await {
                        recorded.lock().unwrap().push(request);
                        respond(stream, reply).await;
                    }
                });
            }
        });
        Server { address, requests, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = bytes[head + 4..].to_vec();
    while body.len() < length {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => body.extend_from_slice(&buffer[..read]),
        }
    }
    Some(ReceivedRequest { line, headers, body })
}

/// Sends the reply. Write errors are ignored: the client may close the connection early.
async fn respond(mut stream: TcpStream, reply: Reply) {
    let head = |status: u16, length: usize| {
        format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")
    };
    match reply {
        Reply::Text(status, body) => {
            let _ = stream.write_all(format!("{}{body}", head(status, body.len())).as_bytes()).await;
        }
        Reply::Bytes(status, body) => {
            let _ = stream.write_all(&[head(status, body.len()).as_bytes(), &body].concat()).await;
        }
        Reply::Redirect(status, location) => {
            let response = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            );
            let _ = stream.write_all(response.as_bytes()).await;
        }
        Reply::EndlessBody(status) => {
            let mut sent = stream.write_all(head(status, usize::MAX / 4).as_bytes()).await;
            while sent.is_ok() {
                sent = stream.write_all(&[b'x'; 64 * 1024]).await;
            }
        }
        Reply::PartialBody(status, body) => {
            let _ = stream.write_all(format!("{}{body}", head(status, body.len() + 1)).as_bytes()).await;
            std::future::pending::<()>().await;
        }
        Reply::Silence => std::future::pending().await,
        Reply::Close => {}
    }
}
