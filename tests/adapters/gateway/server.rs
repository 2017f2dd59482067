//! A gateway that answers as it is told, and keeps what it was asked. One request on each connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A status and a body.
    Says(u16, &'static str),
    /// A status and a body that is no text.
    SaysBytes(u16, Vec<u8>),
    /// A status that sends elsewhere.
    SendsTo(u16, String),
    /// A status and a body that never ends.
    Floods(u16),
    /// A status, half a body, and nothing more.
    Trickles(u16, &'static str),
    /// Nothing.
    Waits,
    /// It closes the connection.
    HangsUp,
}

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    /// With names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Gives these replies in turn, and the last of them from then on.
    pub(crate) async fn start(replies: &[Reply]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (kept, replies) = (Arc::clone(&asked), replies.to_vec());
        let serving = tokio::spawn(async move {
            let mut number = 0;
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let reply = replies[number.min(replies.len() - 1)].clone();
                number += 1;
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    if let Some(request) = read(&mut stream).await {
                        kept.lock().unwrap().push(request);
                        answer(stream, reply).await;
                    }
                });
            }
        });
        Server { address, asked, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
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
    Some(Asked { line, headers, body })
}

/// Whoever hangs up early does not want to know.
async fn answer(mut stream: TcpStream, reply: Reply) {
    let head = |status: u16, length: usize| {
        format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")
    };
    match reply {
        Reply::Says(status, body) => {
            let _ = stream.write_all(format!("{}{body}", head(status, body.len())).as_bytes()).await;
        }
        Reply::SaysBytes(status, body) => {
            let _ = stream.write_all(&[head(status, body.len()).as_bytes(), &body].concat()).await;
        }
        Reply::SendsTo(status, place) => {
            let moved = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"
            );
            let _ = stream.write_all(moved.as_bytes()).await;
        }
        Reply::Floods(status) => {
            let mut sent = stream.write_all(head(status, usize::MAX / 4).as_bytes()).await;
            while sent.is_ok() {
                sent = stream.write_all(&[b'x'; 64 * 1024]).await;
            }
        }
        Reply::Trickles(status, body) => {
            let _ = stream.write_all(format!("{}{body}", head(status, body.len() + 1)).as_bytes()).await;
            std::future::pending::<()>().await;
        }
        Reply::Waits => std::future::pending().await,
        Reply::HangsUp => {}
    }
}
