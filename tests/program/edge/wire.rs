//! HTTP/1.1 on a plain socket, to send requests that an HTTP client would not send.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Framing of the request body, which marks the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `Content-Length`.
    Length,
    /// `Content-Length` of this many bytes, more than the body that is sent.
    Announced(usize),
    /// Chunks of this many bytes.
    Chunked(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) framing: Framing,
}

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Header names in lower case, with their values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// Read timeout, longer than the program's own timeouts.
const PATIENCE: Duration = Duration::from_secs(40);

impl Request {
    /// Sends the request on a new connection and reads the whole response.
    pub(crate) fn send(&self, address: &str) -> Result<Response, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        // A server that rejects a request early may close before it has read everything; its response is still valid.
        let _ = stream.write_all(&self.bytes());
        let mut response = Vec::new();
        match stream.read_to_end(&mut response) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset && !response.is_empty() => {}
            Err(error) => return Err(error.to_string()),
        }
        Response::parse(&response)
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
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("no response: {text:?}"))?;
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
            length => Err(format!("the response has {} of {length:?} bytes", response.body.len())),
        }
    }

    /// The header, if it occurs exactly once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(header, _)| header == name);
        found.next().filter(|_| found.next().is_none()).map(|(_, value)| value.as_str())
    }
}
