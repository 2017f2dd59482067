//! A server for the Redis protocol (RESP2) that does not execute scripts: it sends scripted replies.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Suffix of the key with which a client tests a connection. The server always allows this request.
const PROBE: &str = ":probe";

#[derive(Default)]
struct State {
    connections: usize,
    take_reply: (i64, i64),
    last_key: String,
}

pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                shared.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Server { address, state, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Sets the reply to `take.lua`.
    pub(crate) fn set_take_reply(&self, reply: (i64, i64)) {
        self.state.lock().unwrap().take_reply = reply;
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// The key of the last script call.
    pub(crate) fn last_key(&self) -> String {
        self.state.lock().unwrap().last_key.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    while let Some(command) = command(&mut stream).await {
        let reply = reply(&command, &mut state.lock().unwrap());
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the next command as a list of words; `None` after the client has disconnected.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let count = length(stream, '*').await?;
    let mut command = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; length(stream, '$').await? + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        command.push(String::from_utf8(word).unwrap());
    }
    Some(command)
}

async fn length(stream: &mut BufReader<TcpStream>, prefix: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(prefix)?.parse().ok()
}

/// The reply to a command. A script is identified by the number of its arguments, which follow `EVALSHA`, its SHA-1,
/// `1` and the key.
fn reply(command: &[String], state: &mut State) -> String {
    if !command[0].eq_ignore_ascii_case("EVALSHA") {
        return "+OK\r\n".to_owned();
    }
    let is_probe = command[3].ends_with(PROBE);
    state.last_key.clone_from(&command[3]);
    match command.len() - 4 {
        // take.lua
        3 => {
            let (allowed, number) = if is_probe { (1, 0) } else { state.take_reply };
            format!("*2\r\n:{allowed}\r\n:{number}\r\n")
        }
        // claim.lua
        7 => "*3\r\n:1\r\n:1770201000000\r\n*0\r\n".to_owned(),
        // conclude.lua
        4 => ":0\r\n".to_owned(),
        // release.lua
        1 => ":1\r\n".to_owned(),
        others => panic!("unexpected script: {others} arguments"),
    }
}
