//! A TCP proxy between a program and a server: it can cut, delay, and let one direction go nowhere.

#![allow(clippy::disallowed_methods, reason = "real connections run on real time")]

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

/// A running proxy. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy to this port of 127.0.0.1.
    pub async fn start(server: u16) -> Result<Proxy, Fault> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let state = watch::Sender::new(State::default());
        let watching = state.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let now = *watching.borrow();
                if !now.traffic.refuse {
                    tokio::spawn(serve(client, server, watching.clone(), now.age));
                }
            }
        });
        Ok(Proxy { port, state, task })
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on.
    pub fn set(&self, traffic: Traffic) {
        self.state.send_modify(|state| state.traffic = traffic);
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

async fn serve(client: TcpStream, server: u16, mut state: watch::Receiver<State>, age: u64) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    // Small writes are what is being tested.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = pump(from_client, to_server, Direction::ToServer, state.clone());
    let back = pump(from_server, to_client, Direction::FromServer, state.clone());
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
    state: watch::Receiver<State>,
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
        if !vanishes && to.write_all(&part[..read]).await.is_err() {
            return;
        }
    }
}
