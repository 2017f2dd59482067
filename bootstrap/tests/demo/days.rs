//! One run of `handover demo` in a folder of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long a day may take, on a machine that is busy with other tests.
const DAY: Duration = Duration::from_secs(120);

/// How many days are played at once by all tests together: a day keeps half a core busy, and where more of them share
/// two cores, orders are closed later than a day promises.
const AT_ONCE: usize = 4;

static PLAYING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// One of the places for days that are played at once. Dropping it makes room for another.
struct Place;

impl Place {
    fn take() -> Place {
        let playing = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut playing =
            ENDED.wait_while(playing, |playing| *playing == AT_ONCE).unwrap_or_else(PoisonError::into_inner);
        *playing += 1;
        Place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *PLAYING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A day that is going to be played.
pub(crate) struct Day {
    folder: TempDir,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A day that is being played. Dropping it kills it.
pub(crate) struct Running {
    day: Day,
    child: Child,
    _place: Place,
}

/// A day that is over.
pub(crate) struct Played {
    day: Day,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Day {
    pub(crate) fn new() -> Day {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let arguments = ["demo", "--output", "json"].map(str::to_owned).to_vec();
        Day { folder, arguments, variables: Vec::new() }
    }

    /// As a person sees it.
    pub(crate) fn table(mut self) -> Day {
        self.arguments.truncate(1);
        self
    }

    /// With these flags.
    pub(crate) fn with(mut self, flags: &str) -> Day {
        self.arguments.extend(flags.split_whitespace().map(str::to_owned));
        self
    }

    /// With this variable.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Day {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this file in the folder in which it is started.
    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handover"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HANDOVER_") {
                command.env_remove(name);
            }
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("TMPDIR", self.folder.path().join("tmp"));
        command
    }

    /// Begins when one of the days before has made room.
    pub(crate) fn start(self) -> Running {
        let place = Place::take();
        let [out, err] = ["out", "err"].map(|name| File::create(self.folder.path().join(name)).unwrap());
        let mut command = self.command();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let child = command.args(&self.arguments).stdout(out).stderr(err).spawn().unwrap();
        Running { day: self, child, _place: place }
    }

    pub(crate) fn play(self) -> Played {
        self.start().ended(DAY)
    }
}

/// Plays them side by side, as there is room.
pub(crate) fn at_once<const N: usize>(days: [Day; N]) -> [Played; N] {
    std::thread::scope(|scope| {
        days.map(|day| scope.spawn(|| day.play())).map(|played| match played.join() {
            Ok(played) => played,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

impl Running {
    fn said(&self, name: &str) -> String {
        let bytes = std::fs::read(self.day.folder.path().join(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for what it looks for.
    #[track_caller]
    pub(crate) fn until<T>(&mut self, what: &str, mut look: impl FnMut(&Running) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && begun.elapsed() < DAY, "no {what}: {ended:?}\n{}", self.said("err"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a phase begins.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, phase: &str) {
        self.until(phase, |day| day.said("err").lines().any(|line| line == phase).then_some(()));
    }

    /// Waits for what is said of a market that is kept; it ends with a command.
    #[track_caller]
    pub(crate) fn greeting(&mut self) -> String {
        self.until("greeting", |day| Some(day.said("out")).filter(|said| said.ends_with(" --limit 5\n")))
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The answer of another command.
    pub(crate) fn other(&self, arguments: &[&str]) -> Value {
        let output = self.day.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ended(mut self, within: Duration) -> Played {
        let begun = Instant::now();
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None => assert!(begun.elapsed() < within, "not over within {within:?}\n{}", self.said("err")),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let (stdout, stderr) = (self.said("out"), self.said("err"));
        // The folder goes on; there is nobody left to kill.
        let day = std::mem::replace(&mut self.day, Day::new());
        Played { day, code, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Played {
    pub(crate) fn code(&self) -> Option<i32> {
        self.code
    }

    pub(crate) fn stdout(&self) -> &str {
        &self.stdout
    }

    pub(crate) fn stderr(&self) -> &str {
        &self.stderr
    }

    /// What is left where temporary files go.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.day.folder.path().join("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// The report of a day on which every promise was kept.
    #[track_caller]
    pub(crate) fn kept(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("error:"), "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The report of a day on which one was not.
    #[track_caller]
    pub(crate) fn broken(&self) -> Value {
        assert_eq!(self.code, Some(1), "{}\n{}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// The status of an answer, and all of it.
pub(crate) fn get(address: &str, path: &str, token: Option<&str>) -> (u16, String) {
    send(address, &format!("GET {path}"), token, "")
}

/// The same of a command in JSON.
pub(crate) fn post(address: &str, path: &str, token: &str, json: &str) -> (u16, String) {
    send(address, &format!("POST {path}"), Some(token), json)
}

fn send(address: &str, what: &str, token: Option<&str>, json: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let content = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", json.len());
    let content = if json.is_empty() { String::new() } else { content };
    write!(stream, "{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}{content}\r\n{json}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split_whitespace().nth(1).unwrap().parse().unwrap(), answer)
}
