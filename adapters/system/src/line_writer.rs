//! Writes lines from a thread of its own, so that a reader that stalls never blocks the code that writes.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handover_outbox::Metric;

/// Metric of the lines that were dropped ([`LineWriter::dropped`]) by the writer of the log.
pub const LOG_LINES_DROPPED: Metric = Metric::counter(
    "handover.log.lines.dropped",
    "Log lines dropped because the reader of stderr was too slow or has ended",
);

/// Lines that are written with one system call: up to `PIPE_BUF`, which a pipe takes as a whole.
const BATCH_BYTES: usize = 4096;
/// Memory that a queued line needs in addition to its text.
const LINE_OVERHEAD_BYTES: usize = 64;
/// Time for which the thread gathers lines: waking it costs more than formatting several lines, and the log of a busy process needs a
/// wake-up per this time. A process that is killed loses the lines of this time.
const GATHER: Duration = Duration::from_millis(25);
/// Pause before a write is repeated on a destination that does not block (`O_NONBLOCK`) and is full.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Limits and callbacks of a [`LineWriter`].
pub struct LineWriterOptions {
    /// Memory for queued lines. Further lines are dropped until half of it is free again.
    pub max_bytes: usize,
    /// Whether a line displaces other queued lines when the queue is full.
    pub is_important: fn(&[u8]) -> bool,
    /// Called by the writing thread when lines are accepted again, with the number of lines that were dropped. It may
    /// write lines.
    pub on_recovery: Box<dyn Fn(u64) + Send + Sync>,
}

/// Queue of lines with a thread that writes them. Clones share the queue.
///
/// A write never waits for the destination and never fails. Lines are written completely and in sequence; if the queue is
/// full, new lines are dropped, and an important line displaces the newest other ones.
#[derive(Clone)]
pub struct LineWriter(Arc<Shared>);

struct Shared {
    options: LineWriterOptions,
    queue: Mutex<Queue>,
    /// Signals the writing thread: a line was added while it waited for one, or a line that must not wait.
    added: Condvar,
    /// Signals [`LineWriter::flush`]: everything is written.
    written: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Queue {
    important: VecDeque<Line>,
    other: VecDeque<Line>,
    /// Number of the next line.
    next: u64,
    bytes: usize,
    /// Lines dropped since the last recovery. While it is not 0, only important lines are accepted.
    dropped: u64,
    /// Whether the thread writes or calls back.
    is_busy: bool,
    /// Whether the thread waits for a line.
    is_idle: bool,
    /// Whether the thread must not gather lines: an important line is queued, the queue is half full, or somebody waits
    /// for the lines.
    is_urgent: bool,
}

struct Line {
    number: u64,
    text: Vec<u8>,
}

impl LineWriter {
    /// Starts the thread.
    pub fn start(
        destination: impl Write + Send + 'static,
        options: LineWriterOptions,
    ) -> io::Result<LineWriter> {
        let shared = Arc::new(Shared {
            options,
            queue: Mutex::default(),
            added: Condvar::new(),
            written: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("line-writer".to_owned())
            .spawn(move || of_thread.write_all(destination))?;
        Ok(LineWriter(shared))
    }

    /// Number of lines dropped so far: the queue was full, or the destination failed.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all queued lines are written. Returns whether this was the case within the time.
    pub fn flush(&self, within: Duration) -> bool {
        let mut queue = self.0.queue();
        queue.is_urgent = true;
        self.0.added.notify_one();
        let (_queue, timeout) = self
            .0
            .written
            .wait_timeout_while(queue, within, |queue| !queue.is_written())
            .unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out()
    }
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineWriter").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

/// Each call of `write` adds one line, or several whole ones.
impl Write for LineWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let is_important = (self.0.options.is_important)(text);
        let mut queue = self.0.queue();
        let dropped = queue.add(text, is_important, self.0.options.max_bytes);
        queue.is_urgent |= is_important || queue.bytes > self.0.options.max_bytes / 2;
        let wakes_thread = queue.is_idle || queue.is_urgent;
        drop(queue);
        self.0.dropped.fetch_add(dropped, Ordering::Relaxed);
        if wakes_thread {
            self.0.added.notify_one();
        }
        Ok(text.len())
    }

    /// Does nothing: [`LineWriter::flush`] waits for a limited time.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a line, and then for more.
    fn gather<'q>(&self, mut queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        queue.is_idle = true;
        queue.is_urgent = false;
        queue = self
            .added
            .wait_while(queue, |queue| queue.is_written() && !queue.is_urgent)
            .unwrap_or_else(PoisonError::into_inner);
        queue.is_idle = false;
        let gathered = self.added.wait_timeout_while(queue, GATHER, |queue| !queue.is_urgent);
        gathered.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The thread: writes lines as long as the process runs.
    fn write_all(&self, mut destination: impl Write) {
        let mut queue = self.queue();
        loop {
            queue.is_busy = false;
            let dropped = queue.recover(self.options.max_bytes);
            let (batch, lines) = if dropped == 0 { queue.take(BATCH_BYTES) } else { (Vec::new(), 0) };
            if dropped == 0 && lines == 0 {
                self.written.notify_all();
                queue = self.gather(queue);
                continue;
            }
            queue.is_busy = true;
            drop(queue);
            if dropped > 0 {
                (self.options.on_recovery)(dropped);
            } else if write_whole(&mut destination, &batch).is_err() {
                // The destination is gone: nobody can read a report about it.
                self.dropped.fetch_add(lines, Ordering::Relaxed);
            }
            queue = self.queue();
        }
    }
}

impl Queue {
    /// Adds a line if there is room for it. Returns the number of dropped lines.
    fn add(&mut self, text: &[u8], is_important: bool, max_bytes: usize) -> u64 {
        let bytes = text.len() + LINE_OVERHEAD_BYTES;
        let mut dropped = 0;
        while is_important && self.bytes + bytes > max_bytes {
            let Some(displaced) = self.other.pop_back() else { break };
            self.bytes -= displaced.bytes();
            dropped += 1;
        }
        if self.bytes + bytes > max_bytes || (self.dropped > 0 && !is_important) {
            dropped += 1;
        } else {
            self.bytes += bytes;
            let line = Line { number: self.next, text: text.to_owned() };
            self.next += 1;
            if is_important { self.important.push_back(line) } else { self.other.push_back(line) }
        }
        self.dropped += dropped;
        dropped
    }

    /// Accepts lines again if half of the queue is free. Returns the number of lines that were dropped before.
    fn recover(&mut self, max_bytes: usize) -> u64 {
        if self.bytes > max_bytes / 2 { 0 } else { std::mem::take(&mut self.dropped) }
    }

    /// Removes the oldest lines, at least one, up to this size.
    fn take(&mut self, max_bytes: usize) -> (Vec<u8>, u64) {
        let mut batch = Vec::new();
        let mut lines = 0;
        loop {
            let number = |queue: &VecDeque<Line>| queue.front().map_or(u64::MAX, |line| line.number);
            let oldest = match number(&self.important) < number(&self.other) {
                true => &mut self.important,
                false => &mut self.other,
            };
            let fits = |line: &Line| lines == 0 || batch.len() + line.text.len() <= max_bytes;
            if !oldest.front().is_some_and(fits) {
                return (batch, lines);
            }
            if let Some(line) = oldest.pop_front() {
                self.bytes -= line.bytes();
                batch.extend(line.text);
                lines += 1;
            }
        }
    }

    fn is_written(&self) -> bool {
        self.important.is_empty() && self.other.is_empty() && self.dropped == 0 && !self.is_busy
    }
}

impl Line {
    fn bytes(&self) -> usize {
        self.text.len() + LINE_OVERHEAD_BYTES
    }
}

/// Like `write_all`, also on a destination that does not block.
fn write_whole(destination: &mut impl Write, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match destination.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(),
            Err(error) => return Err(error),
        }
    }
    destination.flush()
}

#[allow(clippy::disallowed_methods, reason = "blocks only the thread that writes")]
fn pause() {
    std::thread::sleep(FULL_PAUSE);
}
