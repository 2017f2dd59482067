//! A TCP proxy between a program and a server: it can cut, delay, hold back, and let one direction go nowhere.

#![allow(clippy::disallowed_methods, reason = "real connections run on real time")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::process::Fault;

/// What the proxy does with what passes through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Everything arrives this much later.
    pub delay: Duration,
    /// What goes to the server vanishes; the connection stays.
    pub to_server_vanishes: bool,
    /// What comes from the server vanishes; the connection stays.
    pub from_server_vanishes: bool,
    /// What comes from the server arrives once this is over.
    pub from_server_waits: bool,
    /// New connections are closed at once.
    pub refuse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    FromServer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    traffic: Traffic,
    /// Connections of an earlier age are cut.
    age: u64,
}

/// What happens when a text goes to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Catch {
    /// Its sender is cut off right after it.
    Cut,
    /// From then on, what comes from the server waits.
    Hold,
}

/// A text, and what happens when it is sent the next time.
type Trap = Arc<Mutex<Option<(&'static str, Catch)>>>;

/// What the connections share.
#[derive(Debug, Clone)]
struct Shared {
    state: watch::Sender<State>,
    trap: Trap,
}

/// A running proxy. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy to this port of 127.0.0.1.
    pub async fn start(server: u16) -> Result<Proxy, Fault> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Shared { state: watch::Sender::new(State::default()), trap: Trap::default() };
        let of_connections = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let now = *of_connections.state.borrow();
                if !now.traffic.refuse {
                    tokio::spawn(serve(client, server, of_connections.clone(), now.age));
                }
            }
        });
        Ok(Proxy { port, shared, task })
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on.
    pub fn set(&self, traffic: Traffic) {
        self.shared.state.send_modify(|state| state.traffic = traffic);
    }

    /// Cuts off whoever sends this text next: the server gets it, its answer is lost.
    pub fn cut_after(&self, text: &'static str) {
        *self.shared.trap.lock().unwrap() = Some((text, Catch::Cut));
    }

    /// Holds back what comes from the server ([`Traffic::from_server_waits`]) once somebody sends this text.
    pub fn hold_after(&self, text: &'static str) {
        *self.shared.trap.lock().unwrap() = Some((text, Catch::Hold));
    }

    /// Whether nobody has sent that text yet.
    pub fn is_waiting_to_cut(&self) -> bool {
        self.shared.trap.lock().unwrap().is_some()
    }

    /// Cuts every connection there is.
    pub fn cut(&self) {
        self.shared.state.send_modify(|state| state.age += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn serve(client: TcpStream, server: u16, shared: Shared, age: u64) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    // Small writes are what is being tested.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut state = shared.state.subscribe();
    let there = pump(from_client, to_server, Direction::ToServer, shared.clone());
    let back = pump(from_server, to_client, Direction::FromServer, shared.clone());
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = state.wait_for(|state| state.age != age) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, direction: Direction, shared: Shared) {
    let mut state = shared.state.subscribe();
    let mut part = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut part).await {
        let traffic = state.borrow().traffic;
        if !traffic.delay.is_zero() {
            tokio::time::sleep(traffic.delay).await;
        }
        let (vanishes, caught) = match direction {
            Direction::ToServer => (traffic.to_server_vanishes, shared.caught(&part[..read])),
            Direction::FromServer => {
                if state.wait_for(|state| !state.traffic.from_server_waits).await.is_err() {
                    return;
                }
                (traffic.from_server_vanishes, None)
            }
        };
        if caught == Some(Catch::Hold) {
            // Before the server can answer.
            shared.state.send_modify(|state| state.traffic.from_server_waits = true);
        }
        if !vanishes && to.write_all(&part[..read]).await.is_err() {
            return;
        }
        if caught == Some(Catch::Cut) {
            // What was written arrives before the end does.
            let _ = to.shutdown().await;
            return;
        }
    }
}

impl Shared {
    /// What the trap does if it is set for this, which springs it.
    fn caught(&self, sent: &[u8]) -> Option<Catch> {
        let mut trap = self.trap.lock().unwrap();
        let (_, catch) =
            trap.take_if(|(text, _)| sent.windows(text.len()).any(|part| part == text.as_bytes()))?;
        Some(catch)
    }
}
