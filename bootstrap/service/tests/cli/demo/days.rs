//! One run of `handover demo` in a separate folder.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{World, answer};

/// Timeout of one demo, on a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum number of demos that all tests together run at the same time. A demo mostly waits, so other tests can run.
const MAX_CONCURRENT: usize = 3;

static PLAYING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Permit to run one demo. Dropping it releases the permit.
struct Permit;

impl Permit {
    fn acquire() -> Permit {
        let playing = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut playing = ENDED
            .wait_while(playing, |playing| *playing == MAX_CONCURRENT)
            .unwrap_or_else(PoisonError::into_inner);
        *playing += 1;
        Permit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *PLAYING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A demo that has not started yet: its folder and its arguments.
pub(crate) struct Day {
    world: World,
    arguments: Vec<String>,
}

/// A running demo. Dropping it kills the process.
pub(crate) struct Running {
    day: Day,
    child: Child,
    _permit: Permit,
}

/// A finished demo: exit code and output.
pub(crate) struct Played {
    day: Day,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Day {
    pub(crate) fn new() -> Day {
        let world = World::new();
        std::fs::create_dir(world.path("tmp")).unwrap();
        let arguments = ["demo", "--output", "json"].map(str::to_owned).to_vec();
        Day { world, arguments }
    }

    /// Prints a table instead of JSON.
    pub(crate) fn table(mut self) -> Day {
        self.arguments.truncate(1);
        self
    }

    pub(crate) fn with(mut self, flags: &str) -> Day {
        self.arguments.extend(flags.split_whitespace().map(str::to_owned));
        self
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Day {
        self.world = self.world.set(name, value);
        self
    }

    /// Writes a file into the working folder.
    pub(crate) fn write(&self, name: &str, content: &str) {
        self.world.write(name, content);
    }

    fn command(&self) -> Command {
        let mut command = self.world.command();
        command.env("TMPDIR", self.world.path("tmp"));
        command
    }

    /// Starts the demo as soon as a permit is available.
    pub(crate) fn start(self) -> Running {
        let permit = Permit::acquire();
        let [out, err] = ["out", "err"].map(|name| File::create(self.world.path(name)).unwrap());
        let child = self.command().args(&self.arguments).stdout(out).stderr(err).spawn().unwrap();
        Running { day: self, child, _permit: permit }
    }

    pub(crate) fn play(self) -> Played {
        self.start().ended()
    }
}

/// Runs `play` for all items concurrently; the permits limit the number of running demos.
pub(crate) fn at_once<T: Send, U: Send>(each: Vec<T>, play: impl Fn(T) -> U + Sync) -> Vec<U> {
    std::thread::scope(|scope| {
        let play = &play;
        let played: Vec<_> = each.into_iter().map(|one| scope.spawn(move || play(one))).collect();
        let join = |played: std::thread::ScopedJoinHandle<'_, U>| match played.join() {
            Ok(played) => played,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        played.into_iter().map(join).collect()
    })
}

impl Running {
    fn output(&self, name: &str) -> String {
        let bytes = std::fs::read(self.day.world.path(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Polls until `find` returns a value.
    #[track_caller]
    pub(crate) fn until<T>(&mut self, what: &str, mut find: impl FnMut(&Running) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = find(self) {
                return found;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < TIMEOUT,
                "no {what}: {ended:?}\n{}",
                self.output("err")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the demo prints that this phase begins.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, phase: &str) {
        self.until(phase, |day| day.output("err").lines().any(|line| line == phase).then_some(()));
    }

    /// The folder that the running demo created.
    pub(crate) fn folder(&self) -> PathBuf {
        let mut entries = std::fs::read_dir(self.day.world.path("tmp")).unwrap();
        entries.next().unwrap().unwrap().path()
    }

    /// Waits until the demo has printed how to use the service that keeps running; the text ends with a command.
    #[track_caller]
    pub(crate) fn market(&mut self) -> Market {
        let text = self
            .until("greeting", |day| Some(day.output("out")).filter(|text| text.ends_with(" --limit 5\n")));
        let rest = text.split_once("The service keeps running on http://").unwrap().1;
        let (address, rest) = rest.split_once(" until it is stopped (Ctrl-C); its folder is kept: ").unwrap();
        let folder = rest.lines().next().unwrap();
        let token =
            rest.split_once("operator=\"Authorization: Bearer ").unwrap().1.split_once('"').unwrap().0;
        let [address, folder, token] = [address, folder, token].map(str::to_owned);
        Market { address, folder, token }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Runs another command and returns its JSON output.
    pub(crate) fn other(&self, arguments: &[&str]) -> Value {
        let output = self.day.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Played {
        let begun = Instant::now();
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None => assert!(
                    begun.elapsed() < TIMEOUT,
                    "not finished within {TIMEOUT:?}\n{}",
                    self.output("err")
                ),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let stdout = self.output("out");
        let stderr = self.output("err");
        // `Played` takes over the folder; the process has ended, so dropping `self` stops no process.
        let day = std::mem::replace(&mut self.day, Day::new());
        Played { day, code, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `kill` fails only if the demo has already ended.
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

    /// The files left in the temporary folder.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.day.world.path("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// Asserts that the demo reports every promise as kept; returns the report.
    #[track_caller]
    pub(crate) fn kept(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("error:"), "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Asserts that the demo reports a broken promise; returns the report.
    #[track_caller]
    pub(crate) fn broken(&self) -> Value {
        assert_eq!(self.code, Some(1), "{}\n{}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// A service that keeps running after the demo (`--keep`), and the token of an operator.
pub(crate) struct Market {
    address: String,
    pub(crate) folder: String,
    token: String,
}

impl Market {
    /// Sends a GET request as operator; returns status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.ask(&format!("GET {path}"), "")
    }

    /// Sends a POST request with JSON as operator; returns status and body.
    pub(crate) fn post(&self, path: &str, json: &str) -> (u16, Value) {
        self.ask(&format!("POST {path}"), json)
    }

    fn ask(&self, request: &str, json: &str) -> (u16, Value) {
        let (status, body) = answer(&self.address, &self.token, request, json);
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }
}
