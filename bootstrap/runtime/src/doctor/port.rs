//! Checks that an address of the API can be bound, or that handover already listens there.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;

use super::report::Check;
use crate::failure::Failure;

const NAME: &str = "port";
/// Timeout of the readiness request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The process that listens on the address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Listener {
    Ready,
    /// With the problems that it reports.
    NotReady(String),
    OtherProgram,
}

/// The processes that serve the database.
#[derive(Debug)]
pub(super) enum Served {
    /// The database is a file: at most one process serves it, with this id.
    Here(Option<String>),
    /// The database is on a server: any number of processes on any machines serve it.
    Anywhere,
}

/// Binds the address for a moment. If it is in use, requests `/readyz` from the process that listens there.
pub(super) async fn check(listen: SocketAddr, served: &Served) -> Check {
    let bound = TcpListener::bind(listen).await.map_err(|cause| Failure::Listen { listen, cause });
    let failure = match bound {
        Ok(_) if listen.port() == 0 => return Check::ok(NAME, format!("any free port of {}", listen.ip())),
        Ok(_) => return Check::ok(NAME, format!("{listen} is free")),
        Err(failure) => failure,
    };
    let taken = matches!(&failure, Failure::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse);
    if !taken {
        return Check::failed(NAME, &failure);
    }
    let listener = tokio::task::spawn_blocking(move || probe(listen)).await;
    match (listener.unwrap_or(Listener::OtherProgram), served) {
        (Listener::Ready, Served::Here(Some(process))) => {
            Check::ok(NAME, format!("handover is ready on {listen}; process {process} serves this database"))
        }
        (Listener::Ready, Served::Anywhere) => Check::ok(NAME, format!("handover is ready on {listen}")),
        (Listener::NotReady(problems), Served::Here(Some(_)) | Served::Anywhere) => Check::warn(
            NAME,
            format!("handover listens on {listen}, but is not ready{problems}"),
            "the process is stopping, or a dependency is unavailable",
            &format!("see the log of the process, and GET http://{listen}/readyz"),
        ),
        (Listener::OtherProgram, _) => Check::failed(NAME, &failure),
        (Listener::Ready | Listener::NotReady(_), Served::Here(None)) => {
            Check::failed(NAME, &Failure::ListenTaken { listen })
        }
    }
}

/// Whether a process of this program listens on the address.
pub(crate) async fn is_handover(listen: SocketAddr) -> bool {
    let listener = tokio::task::spawn_blocking(move || probe(listen)).await;
    matches!(listener, Ok(Listener::Ready | Listener::NotReady(_)))
}

/// Requests `/readyz`, as a load balancer does.
fn probe(listen: SocketAddr) -> Listener {
    let request = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&reachable(listen), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut response = Vec::new();
        stream.take(4096).read_to_end(&mut response)?;
        Ok(String::from_utf8_lossy(&response).into_owned())
    };
    match request() {
        Ok(response) if !response.contains("\"traceId\"") => Listener::OtherProgram,
        Ok(response) if response.starts_with("HTTP/1.1 200") => Listener::Ready,
        Ok(response) => Listener::NotReady(problems(&response)),
        Err(_) => Listener::OtherProgram,
    }
}

/// The problems in a response of `/readyz`, as the end of a sentence; empty if it has none.
fn problems(response: &str) -> String {
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let problems = body["data"]["problems"].as_array().into_iter().flatten();
    let texts: Vec<String> = problems
        .filter_map(|problem| Some(format!("{}: {}", problem["part"].as_str()?, problem["what"].as_str()?)))
        .collect();
    if texts.is_empty() { String::new() } else { format!(": {}", texts.join("; ")) }
}

/// Replaces an unspecified address by the loopback address; returns any other address unchanged.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, listen.port())
}
