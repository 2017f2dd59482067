//! HTTP/1.1 on a bare socket: what a well-behaved client would not send can be sent.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length.
    Length,
    /// By a length that is announced and never comes.
    Announced(usize),
    /// In chunks of so many bytes.
    Chunked(usize),
}

/// A request as it goes over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) framing: Framing,
}

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The longest wait for an answer: more than the program allows itself.
const PATIENCE: Duration = Duration::from_secs(40);

impl Request {
    /// Sends it on a connection of its own and reads the whole answer.
    pub(crate) fn send(&self, address: &str) -> Result<Response, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        // A server that refuses early may close before it has read everything; its answer counts.
        let _ = stream.write_all(&self.bytes());
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset && !answer.is_empty() => {}
            Err(error) => return Err(error.to_string()),
        }
        Response::parse(&answer)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes =
            format!("{} {} HTTP/1.1\r\nHost: handover\r\nConnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            bytes += &format!("{name}: {value}\r\n");
        }
        match self.framing {
            Framing::Length if self.body.is_empty() => {}
            Framing::Length => bytes += &format!("Content-Length: {}\r\n", self.body.len()),
            Framing::Announced(length) => bytes += &format!("Content-Length: {length}\r\n"),
            Framing::Chunked(_) => bytes += "Transfer-Encoding: chunked\r\n",
        }
        bytes += "\r\n";
        let mut bytes = bytes.into_bytes();
        let Framing::Chunked(size) = self.framing else {
            bytes.extend(&self.body);
            return bytes;
        };
        for chunk in self.body.chunks(size) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }
}

impl Response {
    fn parse(bytes: &[u8]) -> Result<Response, String> {
        let text = String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {text:?}"))?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let response = Response {
            status: status.ok_or_else(|| format!("no status: {head:?}"))?,
            headers: lines.filter_map(header).collect(),
            body: body.to_owned(),
        };
        match response.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
            Some(length) if response.body.len() == length => Ok(response),
            length => Err(format!("{} of {length:?} bytes of an answer came", response.body.len())),
        }
    }

    /// A header, if it is there exactly once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(given, _)| given == name);
        found.next().filter(|_| found.next().is_none()).map(|(_, value)| value.as_str())
    }
}
