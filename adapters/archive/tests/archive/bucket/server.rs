//! The S3 server, one for all tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: String,
}

pub(crate) struct S3Server {
    pub(crate) address: SocketAddr,
    /// A user with the permissions that the README names.
    pub(crate) writer: Keys,
    /// A user without permissions.
    pub(crate) unprivileged: Keys,
    /// Temporary credentials with the same permissions as `writer`, and their token.
    pub(crate) session: Keys,
    pub(crate) session_token: String,
    pipes: Mutex<Pipes>,
    folders: AtomicU32,
    _process: Child,
}

/// The server ends with its standard input, which ends with this process.
struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl S3Server {
    pub(crate) fn shared() -> &'static S3Server {
        static SERVER: LazyLock<S3Server> = LazyLock::new(S3Server::start);
        &SERVER
    }

    fn start() -> S3Server {
        let python = std::env::var_os("HANDOVER_S3_SERVER").map(PathBuf::from);
        let python = python.expect("HANDOVER_S3_SERVER is not set: run `tests/run archive`");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive/bucket/server.py");
        let mut process = Command::new(python)
            .arg(script)
            // Without the settings of AWS's tools on this machine.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).expect("the S3 server starts");
        let text = |pointer| started.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        S3Server {
            address: text("/address").strip_prefix("http://").unwrap().parse().unwrap(),
            writer: Keys { id: text("/writer/id"), secret: text("/writer/secret") },
            unprivileged: Keys { id: text("/unprivileged/id"), secret: text("/unprivileged/secret") },
            session: Keys { id: text("/session/id"), secret: text("/session/secret") },
            session_token: text("/session/token"),
            pipes: Mutex::new(Pipes { input, output }),
            folders: AtomicU32::new(0),
            _process: process,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The name of a folder in the bucket that no other test uses.
    pub(crate) fn new_folder(&self) -> String {
        format!("test-{}", self.folders.fetch_add(1, Ordering::Relaxed))
    }

    /// The bytes of an object of the bucket `archive`; none if it does not exist.
    pub(crate) fn object(&self, key: &str) -> Vec<u8> {
        let mut pipes = self.pipes.lock().unwrap();
        writeln!(pipes.input, "{key}").unwrap();
        let mut line = String::new();
        pipes.output.read_line(&mut line).unwrap();
        let digits = line.trim_end().as_bytes().chunks(2);
        digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }
}
