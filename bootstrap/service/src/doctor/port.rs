//! Whether the API's address can be listened on, and if not, whether it is ours that listens there.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::report::Check;
use marketplace_wiring::{Failure, edge};

const NAME: &str = "port";
/// Who does not answer within this does not answer.
const WITHIN: Duration = Duration::from_secs(2);

/// What listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listener {
    Ready,
    NotReady,
    Stranger,
}

/// Who serves the database.
#[derive(Debug)]
pub(super) enum Served {
    /// This process of this machine, if any: the database is a file.
    Here(Option<String>),
    /// Any number of processes on any machines.
    Anywhere,
}

/// Binds the address for an instant; asks who has it otherwise.
pub(super) async fn check(listen: SocketAddr, served: &Served) -> Check {
    let failure = match edge::bind(listen).await {
        Ok(_) if listen.port() == 0 => return Check::ok(NAME, format!("any free port of {}", listen.ip())),
        Ok(_) => return Check::ok(NAME, format!("{listen} is free")),
        Err(failure) => failure,
    };
    let taken = matches!(&failure, Failure::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse);
    if !taken {
        return Check::failed(NAME, &failure);
    }
    let asked = tokio::task::spawn_blocking(move || ask(listen)).await;
    match (asked.unwrap_or(Listener::Stranger), served) {
        (Listener::Ready, Served::Here(Some(process))) => Check::ok(
            NAME,
            format!("a handover is ready on {listen}, and process {process} serves this database"),
        ),
        (Listener::Ready, Served::Anywhere) => Check::ok(NAME, format!("a handover is ready on {listen}")),
        (Listener::NotReady, Served::Here(Some(_)) | Served::Anywhere) => Check::warn(
            NAME,
            format!("a handover listens on {listen}, and is not ready"),
            "it is stopping, or cannot use what it depends on",
            &format!("see its log, and GET http://{listen}/readyz"),
        ),
        (Listener::Stranger, _) | (Listener::Ready | Listener::NotReady, Served::Here(None)) => {
            Check::failed(NAME, &failure)
        }
    }
}

/// Asks as a load balancer does.
fn ask(listen: SocketAddr) -> Listener {
    let answer = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&reachable(listen), WITHIN)?;
        stream.set_read_timeout(Some(WITHIN))?;
        stream.set_write_timeout(Some(WITHIN))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(4096).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    match answer() {
        Ok(answer) if !answer.contains("\"traceId\"") => Listener::Stranger,
        Ok(answer) if answer.starts_with("HTTP/1.1 200") => Listener::Ready,
        Ok(_) => Listener::NotReady,
        Err(_) => Listener::Stranger,
    }
}

/// An address that connects to who listens there.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, listen.port())
}
