//! The shipped program as a child process: started, stopped and killed, and never left running.

#![allow(clippy::disallowed_methods, reason = "real processes run in real time")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::canary::{Canaries, Leak, none};

/// Error of a test helper.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Maximum duration of a start.
pub const START_WITHIN: Duration = Duration::from_secs(60);

/// Path of the built program: `HANDOVER_BIN`, or the output of `cargo build --release`.
pub fn program() -> Result<PathBuf, BoxError> {
    if let Some(path) = std::env::var_os("HANDOVER_BIN") {
        return Ok(path.into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let path = target.join("release/handover");
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("no program at {}: run `cargo build --release`, or set HANDOVER_BIN", path.display())
            .into())
    }
}

/// A temporary folder and the launch options of a program in it.
pub fn fresh() -> (TempDir, Launch) {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch::in_folder(folder.path());
    (folder, launch)
}

/// Polls until the closure returns `Ok`. Panics with the last error when the time is over.
pub async fn eventually<T>(within: Duration, mut poll: impl AsyncFnMut() -> Result<T, BoxError>) -> T {
    let begun = Instant::now();
    loop {
        match poll().await {
            Ok(value) => return value,
            Err(error) if begun.elapsed() > within => {
                panic!("condition not met within {within:?}; last error: {error}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
        }
    }
}

/// Launch options of the program.
#[derive(Debug, Clone)]
pub struct Launch {
    folder: PathBuf,
    /// The program of another version; `None` for that of this build.
    other_program: Option<PathBuf>,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    /// Secrets that a test has got from the program, shared by all clones.
    forbidden: Arc<Mutex<Vec<(String, String)>>>,
}

impl Launch {
    /// The folder contains the database and is the working folder. The rate limits are so high that tests do not
    /// reach them, because all clients of a test use one address.
    pub fn in_folder(folder: &Path) -> Launch {
        let variables = Vec::new();
        let folder = folder.to_owned();
        let forbidden = Arc::default();
        Launch { folder, other_program: None, arguments: Vec::new(), variables, forbidden }
            .set("HANDOVER_RATE_LIMIT__CAPACITY", "100000")
            .set("HANDOVER_RATE_LIMIT__PER_SECOND", "100000")
    }

    /// Runs the program of another version.
    #[must_use]
    pub fn program(mut self, path: &Path) -> Launch {
        self.other_program = Some(path.to_owned());
        self
    }

    /// Sets a configuration key by its environment variable.
    #[must_use]
    pub fn set(mut self, variable: &str, value: &str) -> Launch {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// Leaves out a variable that was set, which another program does not know.
    #[must_use]
    pub fn without(mut self, variable: &str) -> Launch {
        self.variables.retain(|(name, _)| name != variable);
        self
    }

    /// Adds a secret that the program must not leak.
    pub fn forbid(&self, what: &str, secret: &str) {
        self.forbidden.lock().unwrap().push((what.to_owned(), secret.to_owned()));
    }

    /// Runs only the given roles.
    #[must_use]
    pub fn roles(mut self, roles: &str) -> Launch {
        self.arguments.extend(["--roles".to_owned(), roles.to_owned()]);
        self
    }

    /// Path of the database file.
    pub fn database(&self) -> PathBuf {
        self.folder.join("handover.db")
    }

    /// The secret `jwt` or `gateway`: the configured one, or the one that the program generated next to its database.
    pub fn secret(&self, name: &str) -> String {
        let variable = match name {
            "jwt" => "HANDOVER_AUTH__JWT_SECRET",
            _ => "HANDOVER_GATEWAY__SECRET",
        };
        if let Some((_, secret)) = self.variables.iter().rev().find(|(set, _)| set == variable) {
            return secret.clone();
        }
        let path = format!("{}-{name}-secret", self.database().display());
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// The log of all processes started in this folder.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The secrets and personal data that a program with these options must not leak.
    fn canaries(&self) -> Canaries {
        let mut canaries = Canaries::standard();
        for (variable, value) in &self.variables {
            match variable.as_str() {
                "HANDOVER_AUTH__JWT_SECRET" => canaries.secret("the secret that signs tokens", value),
                "HANDOVER_AUTH__PREVIOUS_JWT_SECRET" => {
                    canaries.secret("the previous secret of tokens", value);
                }
                "HANDOVER_GATEWAY__SECRET" => canaries.secret("the gateway's secret", value),
                "HANDOVER_GATEWAY__PREVIOUS_SECRET" => {
                    canaries.secret("the gateway's previous secret", value);
                }
                "HANDOVER_WEBHOOK__KEY" => canaries.secret("the key of webhooks", value),
                "HANDOVER_WEBHOOK__PREVIOUS_KEY" => canaries.secret("the previous key of webhooks", value),
                "HANDOVER_DATABASE__URL" => canaries.password_of("the database's password", value),
                "HANDOVER_REDIS__URL" => canaries.password_of("the password of Redis", value),
                "HANDOVER_BROKER__URL" => canaries.password_of("the broker's password", value),
                _ => {}
            }
        }
        for name in ["jwt secret", "gateway secret", "webhook key"] {
            let path = format!("{}-{}", self.database().display(), name.replace(' ', "-"));
            if let Ok(secret) = std::fs::read_to_string(path) {
                canaries.secret(&format!("the {name} that was generated"), secret.trim());
            }
        }
        for (what, secret) in self.forbidden.lock().unwrap().iter() {
            canaries.secret(what, secret);
        }
        canaries
    }

    /// A command that runs the program, without the `HANDOVER_*` variables of this process.
    fn command(&self) -> Result<Command, BoxError> {
        let mut command = match &self.other_program {
            Some(path) => Command::new(path),
            None => Command::new(program()?),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HANDOVER_") {
                command.env_remove(name);
            }
        }
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Runs a command to its end. Returns exit code, stdout and stderr; panics if they contain a canary.
    pub fn run(&self, arguments: &[&str]) -> Result<(Option<i32>, String, String), BoxError> {
        let output = self.command()?.args(arguments).output()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let stdout = text(output.stdout);
        let stderr = text(output.stderr);
        let canaries = self.canaries();
        none(&canaries.in_text(&format!("stderr of {arguments:?}"), &stderr));
        // The output of the command `token` is not searched, because it prints a token by design.
        if arguments.first() != Some(&"token") {
            none(&canaries.in_answer(&format!("stdout of {arguments:?}"), &stdout));
        }
        Ok((output.status.code(), stdout, stderr))
    }

    /// Starts a command, which the caller may kill. Its output is discarded.
    pub fn spawn(&self, arguments: &[&str]) -> Result<Child, BoxError> {
        let mut command = self.command()?;
        Ok(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    /// Migrates the database. Panics if the program refuses.
    #[track_caller]
    pub fn migrate(&self) {
        let (code, _, stderr) = self.run(&["migrate"]).unwrap();
        assert_eq!(code, Some(0), "{stderr}");
    }

    /// Starts the program on a free port and waits until it reports that it is ready.
    pub fn start(&self) -> Result<Server, BoxError> {
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let mut command = self.command()?;
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(&self.arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn()?;
        let (lines, output) = lines_of(&mut child)?;
        let arguments = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        let mut server = Server { child, base: None, launch: self.clone(), arguments, output };
        let begun = Instant::now();
        loop {
            match lines.recv_timeout(START_WITHIN.saturating_sub(begun.elapsed())) {
                Ok(line) => {
                    if let Some(base) = line.strip_prefix("handover listens on ") {
                        server.base = Some(base.trim().to_owned());
                        return Ok(server);
                    }
                    if line.starts_with("handover runs ") {
                        return Ok(server);
                    }
                }
                Err(_) => {
                    let status = server.child.try_wait()?;
                    return Err(format!(
                        "the program did not start: {status:?}; end of its log:\n{}",
                        tail(&self.log())
                    )
                    .into());
                }
            }
        }
    }
}

/// The last 20 lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Reads the child's stdout to its end, so that the child never blocks on a full pipe, and keeps the text.
fn lines_of(child: &mut Child) -> Result<(Receiver<String>, Arc<Mutex<String>>), BoxError> {
    let stdout = child.stdout.take().ok_or("stdout is piped")?;
    let (sender, receiver) = mpsc::channel();
    let output = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&output);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            kept.lock().unwrap().extend([line.as_str(), "\n"]);
            // Sending fails after the start, when nobody receives lines; the line is then only kept in `output`.
            let _ = sender.send(line);
        }
    });
    Ok((receiver, output))
}

/// Fetches `/metrics`. `None` if the program does not respond.
fn metrics(base: &str) -> Option<String> {
    const WITHIN: Duration = Duration::from_secs(2);
    let address = base.strip_prefix("http://")?.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, WITHIN).ok()?;
    stream.set_read_timeout(Some(WITHIN)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: handover\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

/// A running program. Dropping it kills it and then searches its log, output, arguments, metrics and database for
/// leaked canaries.
#[derive(Debug)]
pub struct Server {
    child: Child,
    base: Option<String>,
    launch: Launch,
    arguments: String,
    output: Arc<Mutex<String>>,
}

impl Server {
    /// `http://127.0.0.1:port`; empty if the program serves no API.
    pub fn base(&self) -> &str {
        self.base.as_deref().unwrap_or_default()
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub fn kill(mut self) -> Result<(), BoxError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the leaked canaries. The caller must fetch `metrics` while the program runs.
    fn leaks(&self, metrics: &str) -> Vec<Leak> {
        let canaries = self.launch.canaries();
        let output = self.output.lock().unwrap().clone();
        let texts = [
            ("the log", self.launch.log()),
            ("the standard output", output),
            ("the arguments", self.arguments.clone()),
            ("the metrics", metrics.to_owned()),
        ];
        let mut leaks: Vec<Leak> =
            texts.iter().flat_map(|(place, text)| canaries.in_text(place, text)).collect();
        let database = self.launch.database();
        let log_of_writes = database.with_extension("db-wal");
        leaks.extend([database, log_of_writes].iter().flat_map(|file| canaries.in_database(file)));
        leaks
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, BoxError> {
        Ok(self.child.try_wait()?)
    }

    /// Sends SIGTERM. Returns the exit status and the time until the process ended.
    pub fn terminate(self, within: Duration) -> Result<(ExitStatus, Duration), BoxError> {
        self.signal("TERM", within)
    }

    /// Sends a signal and waits for the end of the process. Returns the exit status and the duration.
    pub fn signal(mut self, name: &str, within: Duration) -> Result<(ExitStatus, Duration), BoxError> {
        let begun = Instant::now();
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status()?;
        if !sent.success() {
            return Err(format!("kill -{name} failed: {sent}").into());
        }
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status, begun.elapsed()));
            }
            if begun.elapsed() > within {
                return Err(format!(
                    "the process still runs {within:?} after SIG{name}\n{}",
                    tail(&self.launch.log())
                )
                .into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// CPU time used so far by all threads.
    pub fn cpu_time(&self) -> Result<Duration, BoxError> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain blanks; user and system time are the 12th and 13th field after it.
        let fields: Vec<&str> =
            stat.rsplit_once(')').ok_or("no process name in /proc/PID/stat")?.1.split_whitespace().collect();
        let ticks = |field: usize| -> Result<u64, BoxError> {
            Ok(fields.get(field).ok_or("/proc/PID/stat has too few fields")?.parse()?)
        };
        // USER_HZ is 100 on every Linux.
        Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
    }

    /// Resident memory in KiB, including mapped files.
    pub fn resident_kib(&self) -> Result<u64, BoxError> {
        self.memory("VmRSS:")
    }

    /// Anonymous resident memory in KiB: without mapped pages of the database, which the kernel reclaims at will.
    pub fn anonymous_kib(&self) -> Result<u64, BoxError> {
        self.memory("RssAnon:")
    }

    fn memory(&self, name: &str) -> Result<u64, BoxError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .ok_or("the memory figure is missing in /proc/PID/status")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No metrics are fetched after a failure, so that the test reports only that failure.
        let runs = self.child.try_wait().is_ok_and(|ended| ended.is_none());
        let fetch = runs && !std::thread::panicking();
        let metrics = self.base.as_deref().filter(|_| fetch).and_then(metrics).unwrap_or_default();
        // `kill` fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            none(&self.leaks(&metrics));
        }
    }
}
