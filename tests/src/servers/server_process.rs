//! A server process that ends with this process.
//!
//! A shell runs between this process and the server, and reads a pipe from this process. When the pipe is closed,
//! because the server is to end or because this process was killed, the shell ends the server and removes its folder.

#![allow(clippy::disallowed_methods, reason = "real processes run in real time")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{BoxError, tail};

/// `$1` is the signal that ends the server, `$2` its folder, the rest its command line.
const SHELL: &str = r#"
end=$1 folder=$2
shift 2
exec 3<&0
"$@" </dev/null 3<&- 1>&2 &
server=$!
trap '' TERM INT HUP
echo "$server"
exec 1>&2
read -r word <&3
# Continue the processes first: a process stopped by SIGSTOP does not handle SIGTERM or SIGQUIT.
kill -CONT "$server" $(cat /proc/"$server"/task/*/children) 2>/dev/null
kill "-$end" "$server" 2>/dev/null
( sleep 5; kill -KILL "$server" ) >/dev/null 2>&1 3<&- &
late=$!
wait "$server" 2>/dev/null
kill "$late" 2>/dev/null
[ "$word" = keep ] || rm -rf -- "$folder"
"#;

/// Maximum time until a server has ended after its signal.
const END_WITHIN: Duration = Duration::from_secs(60);

/// Signal that ends a server that is no longer needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndWith {
    /// SIGTERM.
    Term,
    /// SIGQUIT.
    Quit,
    /// SIGKILL.
    Kill,
}

impl EndWith {
    const fn name(self) -> &'static str {
        match self {
            EndWith::Term => "TERM",
            EndWith::Quit => "QUIT",
            EndWith::Kill => "KILL",
        }
    }
}

/// A running server. The server ends, and its folder is removed, when this value is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    shell: Child,
    pid: u32,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts a server in `folder`; its output goes to the file `log` there.
    pub fn start(command: &[String], folder: &Path, end: EndWith) -> Result<ServerProcess, BoxError> {
        let log = folder.join("log");
        let output = File::options().create(true).append(true).open(&log)?;
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "server", end.name()])
            .arg(folder)
            .args(command)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(shell.stdout.take().ok_or("stdout is piped")?).read_line(&mut line)?;
        let pid = line.trim().parse().map_err(|_| format!("no process id: {line:?}"))?;
        Ok(ServerProcess { shell, pid, log })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the server still runs.
    pub fn is_running(&self) -> bool {
        runs(self.pid)
    }

    /// The last lines of the server's log.
    pub fn log(&self) -> String {
        tail(&std::fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Sends SIGKILL to the server and its child processes. The folder is kept.
    pub fn kill(mut self) -> Result<(), BoxError> {
        // Stop the server first, so that it starts no more children: a surviving child would keep PostgreSQL's shared
        // memory.
        stop(self.pid)?;
        let children = self.children();
        self.signal("KILL")?;
        for child in &children {
            // An error is ignored, because the child may have ended with its parent.
            let _ = signal(*child, "KILL");
        }
        self.end(true)?;
        let begun = Instant::now();
        while children.iter().any(|child| runs(*child)) {
            if begun.elapsed() > END_WITHIN {
                return Err(
                    format!("processes of the killed server {} still run: {children:?}", self.pid).into()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Ends the server with the signal of `start`. The folder is kept.
    pub fn stop(mut self) -> Result<(), BoxError> {
        self.end(true)
    }

    /// Sends SIGSTOP to the server and its child processes. Returns once all of them are stopped.
    pub fn pause(&self) -> Result<(), BoxError> {
        stop(self.pid)?;
        // The list of children is complete, because the stopped server starts no more children.
        for child in self.children() {
            // An error is ignored, because the child may have ended meanwhile.
            let _ = stop(child);
        }
        Ok(())
    }

    /// Sends SIGCONT.
    pub fn resume(&self) -> Result<(), BoxError> {
        for child in self.children() {
            let _ = signal(child, "CONT");
        }
        self.signal("CONT")
    }

    /// Process ids of the server's child processes.
    fn children(&self) -> Vec<u32> {
        let parent = format!(" {} ", self.pid);
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The fields of `stat` are: process id, name in parentheses, state, id of the parent process.
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.get(1..).is_some_and(|rest| rest.starts_with(&parent)))
        })
        .collect()
    }

    fn signal(&self, name: &str) -> Result<(), BoxError> {
        signal(self.pid, name)
    }

    fn end(&mut self, keep_folder: bool) -> Result<(), BoxError> {
        if let Some(mut pipe) = self.shell.stdin.take()
            && keep_folder
        {
            // An error is ignored, because the shell, and with it the server, may have ended before.
            let _ = pipe.write_all(b"keep\n");
        }
        let begun = Instant::now();
        while self.shell.try_wait()?.is_none() {
            if begun.elapsed() > END_WITHIN {
                self.shell.kill()?;
                return Err(format!("process {} does not end:\n{}", self.pid, self.log()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

fn signal(pid: u32, name: &str) -> Result<(), BoxError> {
    super::run(Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()))
}

/// Whether a process runs.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // In `stat` the state of the process follows its name, which may contain any character. A zombie (`Z`) has ended.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Sends SIGCONT to a process.
pub fn resume(pid: u32) -> Result<(), BoxError> {
    signal(pid, "CONT")
}

/// Sends SIGSTOP to a process and returns once it is stopped.
pub fn stop(pid: u32) -> Result<(), BoxError> {
    signal(pid, "STOP")?;
    let begun = Instant::now();
    while !is_stopped(pid) {
        if begun.elapsed() > END_WITHIN {
            return Err(format!("process {pid} does not stop").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether every thread of a process is stopped, or the process has ended.
fn is_stopped(pid: u32) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
    })
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // An error is ignored: `tests/run` ends the remaining processes with their process group.
        let _ = self.end(false);
    }
}
