//! A TCP proxy between a program and a server. It can cut, delay, pause and discard traffic.

#![allow(clippy::disallowed_methods, reason = "real connections run in real time")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::process::BoxError;

/// Rules by which the proxy forwards, delays or discards data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Delay of all data, in both directions.
    pub delay: Duration,
    /// Discards data to the server; the connection stays open.
    pub discard_to_server: bool,
    /// Discards data from the server; the connection stays open.
    pub discard_from_server: bool,
    /// Holds back data from the server while this field is true.
    pub pause_from_server: bool,
    /// Closes new connections immediately.
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
    /// Incremented to cut all connections that were opened before.
    generation: u64,
    /// Incremented to discard all data of the connections that were opened before.
    stranded: u64,
}

/// Action when a text is sent to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Catch {
    /// Cut the sender's connection right after the text.
    Cut,
    /// Do not forward data from the server after the text was sent.
    Pause,
}

/// A text that a client may send to the server, and the action when it next sends it.
type Trap = Arc<Mutex<Option<(&'static str, Catch)>>>;

/// State shared by all connections.
#[derive(Debug, Clone)]
struct Shared {
    state: watch::Sender<State>,
    trap: Trap,
}

/// A running proxy. Dropping it cuts all connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the given port of 127.0.0.1.
    pub async fn start(server: u16) -> Result<Proxy, BoxError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Shared { state: watch::Sender::new(State::default()), trap: Trap::default() };
        let shared_with_connections = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let now = *shared_with_connections.state.borrow();
                if !now.traffic.refuse {
                    tokio::spawn(serve(client, server, shared_with_connections.clone(), now));
                }
            }
        });
        Ok(Proxy { port, shared, task })
    }

    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets how traffic is treated from now on.
    pub fn set(&self, traffic: Traffic) {
        self.shared.state.send_modify(|state| state.traffic = traffic);
    }

    /// Cuts the connection that sends the text next: the server receives the text, but its response is lost.
    pub fn cut_after(&self, text: &'static str) {
        *self.shared.trap.lock().unwrap() = Some((text, Catch::Cut));
    }

    /// Sets [`Traffic::pause_from_server`] when a client next sends the text.
    pub fn pause_after(&self, text: &'static str) {
        *self.shared.trap.lock().unwrap() = Some((text, Catch::Pause));
    }

    /// Whether the text of [`cut_after`](Proxy::cut_after) or [`pause_after`](Proxy::pause_after) has not been sent
    /// yet.
    pub fn is_armed(&self) -> bool {
        self.shared.trap.lock().unwrap().is_some()
    }

    /// Discards all data of the open connections, which stay open. New ones are not affected.
    pub fn strand(&self) {
        self.shared.state.send_modify(|state| state.stranded += 1);
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        self.shared.state.send_modify(|state| state.generation += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn serve(client: TcpStream, server: u16, shared: Shared, opened: State) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    // Tests depend on the timing of small writes, so Nagle's algorithm is off.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut state = shared.state.subscribe();
    let forward = pump(from_client, to_server, Direction::ToServer, shared.clone(), opened);
    let backward = pump(from_server, to_client, Direction::FromServer, shared.clone(), opened);
    tokio::select! {
        () = forward => {}
        () = backward => {}
        _ = state.wait_for(|state| state.generation != opened.generation) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    shared: Shared,
    opened: State,
) {
    let mut state = shared.state.subscribe();
    let mut part = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut part).await {
        let traffic = state.borrow().traffic;
        if !traffic.delay.is_zero() {
            tokio::time::sleep(traffic.delay).await;
        }
        let (vanishes, caught) = match direction {
            Direction::ToServer => (traffic.discard_to_server, shared.caught(&part[..read])),
            Direction::FromServer => {
                if state.wait_for(|state| !state.traffic.pause_from_server).await.is_err() {
                    return;
                }
                (traffic.discard_from_server, None)
            }
        };
        if caught == Some(Catch::Pause) {
            // The pause is set before the text is forwarded, so that no response passes.
            shared.state.send_modify(|state| state.traffic.pause_from_server = true);
        }
        let is_stranded = state.borrow().stranded != opened.stranded;
        if !vanishes && !is_stranded && to.write_all(&part[..read]).await.is_err() {
            return;
        }
        if caught == Some(Catch::Cut) {
            // The shutdown of the stream first delivers the data that was written, so the server receives the text.
            let _ = to.shutdown().await;
            return;
        }
    }
}

impl Shared {
    /// If `sent` contains the text of the [`Trap`], returns the action of the trap and removes the trap.
    fn caught(&self, sent: &[u8]) -> Option<Catch> {
        let mut trap = self.trap.lock().unwrap();
        let (_, catch) =
            trap.take_if(|(text, _)| sent.windows(text.len()).any(|part| part == text.as_bytes()))?;
        Some(catch)
    }
}
