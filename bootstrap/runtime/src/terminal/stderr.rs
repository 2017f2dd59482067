//! Stderr of a process that must not wait for its reader: lines are queued and written by a thread.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use handover_system::{LineWriter, LineWriterOptions};
use memchr::memmem;

/// The queue of this process, if it has one.
static QUEUE: OnceLock<LineWriter> = OnceLock::new();

/// Memory for lines while the reader stalls: several hundred requests at the default level. Docker's non-blocking log
/// drivers have the same limit.
const MAX_BYTES: usize = 1024 * 1024;
/// Longest time that the end of the process waits for the reader.
const FLUSH_WITHIN: Duration = Duration::from_millis(500);

const ALERT: &[u8] = b"[ALERT]";
const LINES_DROPPED: &str = "log: lines dropped; the reader of stderr was too slow";

/// From this call on, nothing that this process writes to stderr waits for its reader. A second call changes nothing.
pub fn queue_stderr() -> io::Result<LineWriter> {
    if let Some(queue) = QUEUE.get() {
        return Ok(queue.clone());
    }
    let options =
        LineWriterOptions { max_bytes: MAX_BYTES, is_important, on_recovery: Box::new(on_recovery) };
    let started = LineWriter::start(own_stderr(), options)?;
    Ok(QUEUE.get_or_init(|| started).clone())
}

/// Number of lines that were not written because the reader was too slow.
pub fn dropped_lines() -> u64 {
    QUEUE.get().map_or(0, LineWriter::dropped)
}

/// Writes a line. A closed stderr is not an error.
pub(super) fn write_line(text: &str) {
    let line = format!("{text}\n");
    let _ = match QUEUE.get() {
        Some(queue) => queue.clone().write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

/// Waits until queued lines are written, for a limited time: the last step before the process ends.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_WITHIN);
    }
}

/// A handle without the lock of [`io::Stderr`]: a write that blocks must not block a panic message.
fn own_stderr() -> Box<dyn Write + Send> {
    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(handle) => Box::new(File::from(handle)),
        Err(_) => Box::new(io::stderr()),
    }
}

fn is_important(line: &[u8]) -> bool {
    let contains = |part: &[u8]| memmem::find(line, part).is_some();
    contains(ALERT) || contains(LINES_DROPPED.as_bytes())
}

fn on_recovery(dropped: u64) {
    tracing::error!(dropped, "{LINES_DROPPED}");
}
