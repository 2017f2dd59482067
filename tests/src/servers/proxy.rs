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

/// A text whose sender is cut off right after it went to the server.
type Trap = Arc<Mutex<Option<&'static str>>>;

/// A running proxy. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: watch::Sender<State>,
    trap: Trap,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy to this port of 127.0.0.1.
    pub async fn start(server: u16) -> Result<Proxy, Fault> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let state = watch::Sender::new(State::default());
        let (watching, trap) = (state.subscribe(), Trap::default());
        let set = Arc::clone(&trap);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let now = *watching.borrow();
                if !now.traffic.refuse {
                    tokio::spawn(serve(client, server, watching.clone(), now.age, Arc::clone(&set)));
                }
            }
        });
        Ok(Proxy { port, state, trap, task })
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on.
    pub fn set(&self, traffic: Traffic) {
        self.state.send_modify(|state| state.traffic = traffic);
    }

    /// Cuts off whoever sends this text next: the server gets it, its answer is lost.
    pub fn cut_after(&self, text: &'static str) {
        *self.trap.lock().unwrap() = Some(text);
    }

    /// Whether nobody has sent that text yet.
    pub fn is_waiting_to_cut(&self) -> bool {
        self.trap.lock().unwrap().is_some()
    }

    /// Cuts every connection there is.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.age += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn serve(client: TcpStream, server: u16, mut state: watch::Receiver<State>, age: u64, trap: Trap) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    // Small writes are what is being tested.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = pump(from_client, to_server, Direction::ToServer, state.clone(), trap.clone());
    let back = pump(from_server, to_client, Direction::FromServer, state.clone(), trap);
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = state.wait_for(|state| state.age != age) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    mut state: watch::Receiver<State>,
    trap: Trap,
) {
    let mut part = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut part).await {
        let traffic = state.borrow().traffic;
        if !traffic.delay.is_zero() {
            tokio::time::sleep(traffic.delay).await;
        }
        let vanishes = match direction {
            Direction::ToServer => traffic.to_server_vanishes,
            Direction::FromServer => traffic.from_server_vanishes,
        };
        if direction == Direction::FromServer
            && state.wait_for(|state| !state.traffic.from_server_waits).await.is_err()
        {
            return;
        }
        if !vanishes && to.write_all(&part[..read]).await.is_err() {
            return;
        }
        if direction == Direction::ToServer && is_trapped(&trap, &part[..read]) {
            // What was written arrives before the end does.
            let _ = to.shutdown().await;
            return;
        }
    }
}

/// Whether the trap is set for this, which springs it.
fn is_trapped(trap: &Trap, sent: &[u8]) -> bool {
    let mut trap = trap.lock().unwrap();
    let caught = trap.is_some_and(|text| sent.windows(text.len()).any(|part| part == text.as_bytes()));
    if caught {
        *trap = None;
    }
    caught
}
