//! Runs the built program in a separate folder, with a minimal HTTP client to create test data.

#![allow(clippy::disallowed_methods, reason = "the tests wait for real processes and need the real clock")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use serde_json::Value;
use standardwebhooks::Webhook;
use tempfile::TempDir;

/// Result of a finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Asserts that the command failed with this code and printed only to stderr: these parts, with reason and advice.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "a failed command prints nothing to stdout");
        for part in ["error: ", "\n  why: ", "\n  do:  "].iter().chain(parts) {
            assert!(self.stderr.contains(part), "{part:?} is not in\n{}", self.stderr);
        }
    }

    /// Asserts success and returns the output.
    #[track_caller]
    pub(crate) fn done(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }

    /// Parses the output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A folder that the program runs in.
pub(crate) struct World {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> World {
        World { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// Sets an environment variable.
    pub(crate) fn set(mut self, variable: &str, value: &str) -> World {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The names of all files in the folder, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The program in this folder, without other `HANDOVER_` variables of the environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handover"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HANDOVER_") {
                command.env_remove(name);
            }
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program to its end. A process that serves instead of failing is killed, and its exit code is `None`.
    pub(crate) fn run(&self, line: &str) -> Ran {
        let [out, err] = [File::create(self.path("out")), File::create(self.path("err"))].map(Result::unwrap);
        let mut child = self.command().args(line.split_whitespace()).stdout(out).stderr(err).spawn().unwrap();
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if begun.elapsed() > PATIENCE => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let read = |name| {
            let text = String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap()).into_owned();
            std::fs::remove_file(self.path(name)).unwrap();
            text
        };
        Ran { code: status, stdout: read("out"), stderr: read("err") }
    }

    /// Runs `serve` on a free port with these flags; returns as soon as the program listens.
    pub(crate) fn serve(&self, flags: &str) -> Server {
        self.serve_with(flags, Stdio::null())
    }

    /// Like [`World::serve`], with a log whose reader decides when to read.
    pub(crate) fn serve_with_log(&self, flags: &str) -> (Server, ChildStderr) {
        let mut server = self.serve_with(flags, Stdio::piped());
        let log = server.child.stderr.take().unwrap();
        (server, log)
    }

    fn serve_with(&self, flags: &str, stderr: Stdio) -> Server {
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let address = first.strip_prefix("handover listens on http://");
        // Without an API the program serves only metrics and health checks, and prints a single line.
        let monitoring = || Some(first.split_once("; /metrics, /healthz and /readyz are on http://")?.1);
        let address = address.or_else(monitoring).map(str::to_owned);
        if first.starts_with("handover runs ") {
            assert!(address.is_some(), "set HANDOVER_METRICS__LISTEN: {first:?}");
            return Server { child, address: address.unwrap_or_default(), operators: None };
        }
        let second = lines.next().and_then(Result::ok).unwrap_or_default();
        let operators =
            second.strip_prefix("operators' calls and /metrics are on http://").map(str::to_owned);
        // Drain the pipe, so that the program never blocks on stdout.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Server { child, address: address.clone().unwrap_or_default(), operators };
        assert!(address.is_some(), "no start: {first:?}");
        server
    }

    /// Prints a token with these flags.
    pub(crate) fn token(&self, line: &str) -> String {
        self.run(&format!("token {line}")).done().trim().to_owned()
    }
}

/// A serving process. Dropping it kills the process.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// Address of the operators' listener, if there is one.
    pub(crate) operators: Option<String>,
}

impl Server {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: `TERM`, `HUP`, ...
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits until the process has ended; returns its exit code, or `None` if a signal ended it.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        eventually(|| {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// Sends one request and returns `data`.
    #[track_caller]
    pub(crate) fn ask(&self, token: &str, request: &str, body: &str) -> Value {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        let key = KEYS.fetch_add(1, Ordering::Relaxed);
        let headers = format!("Authorization: Bearer {token}\r\nX-Idempotency-Key: key-{key}\r\n{JSON_BODY}");
        data(&self.send(request, &headers, body))
    }

    /// Sends one callback of the gateway, signed with the secret generated in this folder.
    #[track_caller]
    pub(crate) fn report(&self, world: &World, request: &str, body: &str) -> Value {
        let secret = std::fs::read_to_string(world.path("handover.db-gateway-secret")).unwrap();
        data(&self.signed(secret.trim(), request, body))
    }

    /// The HTTP status of the response to one callback of the gateway, signed with this secret.
    pub(crate) fn status_of_signed(&self, secret: &str, request: &str, body: &str) -> u16 {
        self.signed(secret, request, body).0.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn signed(&self, secret: &str, request: &str, body: &str) -> (String, String) {
        let id = "msg-1";
        let now = SystemClock.now().timestamp();
        let signature = Webhook::new(secret).unwrap().sign(id, now, body.as_bytes()).unwrap();
        let headers = format!(
            "webhook-id: {id}\r\nwebhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\n{JSON_BODY}"
        );
        self.send(request, &headers, body)
    }

    /// Sends one request and returns the body.
    pub(crate) fn text(&self, request: &str) -> String {
        self.send(request, "", "").1
    }

    /// The HTTP status of the response to one request with this token.
    pub(crate) fn status(&self, token: &str, request: &str) -> u16 {
        status(&self.address, token, request)
    }

    fn send(&self, request: &str, headers: &str, body: &str) -> (String, String) {
        send(&self.address, request, headers, body)
    }
}

/// The log of a process, read by a thread.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Log {
    /// Starts to read.
    pub(crate) fn read(stderr: ChildStderr) -> Log {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            BufReader::new(stderr).lines().for_each(|line| kept.lock().unwrap().push(line.unwrap()));
        });
        Log { lines, reader }
    }

    /// The lines read so far that contain this text.
    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// All lines, after the end of the process.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.reader.join().unwrap();
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

/// The HTTP status of the response to one request, sent to this address.
pub(crate) fn status(address: &str, token: &str, request: &str) -> u16 {
    answer(address, token, request, "").0
}

/// HTTP status and body of the response to one request with a JSON body.
pub(crate) fn answer(address: &str, token: &str, request: &str, json: &str) -> (u16, String) {
    let headers = format!("Authorization: Bearer {token}\r\n{JSON_BODY}");
    let (head, body) = send(address, request, &headers, json);
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

fn send(address: &str, request: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

const JSON_BODY: &str = "Content-Type: application/json\r\n";

#[track_caller]
fn data((head, body): &(String, String)) -> Value {
    let mut envelope: Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"));
    assert_eq!(envelope["code"], "00000", "{head}\n{body}");
    envelope["data"].take()
}

impl Drop for Server {
    fn drop(&mut self) {
        // `kill` fails only if the serving process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Timeout of conditions, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "the condition does not hold after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
