//! The writer of log lines: a destination that blocks, fails or accepts parts of a line.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use handover_system::{LineWriter, LineWriterOptions};

const WITHIN: Duration = Duration::from_secs(30);

/// A destination that blocks until the test opens it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    /// Whether the writer waits, or has written.
    is_entered: bool,
    text: String,
}

impl Gate {
    /// Waits until the state has this property, after a change.
    fn when(&self, change: impl FnOnce(&mut GateState), property: impl Fn(&GateState) -> bool) -> String {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        change(&mut state);
        changed.notify_all();
        let (state, timeout) = changed.wait_timeout_while(state, WITHIN, |state| !property(state)).unwrap();
        assert!(!timeout.timed_out());
        state.text.clone()
    }
}

impl Write for Gate {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.when(|state| state.is_entered = true, |state| state.is_open);
        self.when(|state| state.text += std::str::from_utf8(text).unwrap(), |_| true);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options(max_bytes: usize, on_recovery: impl Fn(u64) + Send + Sync + 'static) -> LineWriterOptions {
    let is_important = |line: &[u8]| line.starts_with(b"!");
    LineWriterOptions { max_bytes, is_important, on_recovery: Box::new(on_recovery) }
}

#[test]
fn line_writer_drops_lines_but_important_ones_last_and_reports_how_many_when_it_recovers() {
    let gate = Gate::default();
    let of_recovery: Arc<OnceLock<LineWriter>> = Arc::default();
    let on_recovery = {
        let writer = Arc::clone(&of_recovery);
        move |dropped| {
            let mut writer = writer.get().unwrap().clone();
            writeln!(writer, "{dropped} dropped").unwrap();
        }
    };
    // A line of three bytes takes 67 bytes of the queue.
    let writer = LineWriter::start(gate.clone(), options(10 * 67, on_recovery)).unwrap();
    let mut add = {
        let mut writer = writer.clone();
        move |line: &str| writer.write_all(line.as_bytes()).unwrap()
    };
    of_recovery.set(writer.clone()).unwrap();
    add("first\n");
    gate.when(|_| {}, |state| state.is_entered);
    for number in 10..30 {
        add(&format!("{number}\n"));
    }
    assert_eq!(writer.dropped(), 10);
    add("!0\n");
    add("!1\n");
    assert_eq!(writer.dropped(), 12);
    assert!(!writer.flush(Duration::ZERO), "nothing is written");
    gate.when(|state| state.is_open = true, |_| true);
    assert!(writer.flush(WITHIN));
    add("last\n");
    assert!(writer.flush(WITHIN));
    let expected = "first\n10\n11\n12\n13\n14\n15\n16\n17\n!0\n!1\n12 dropped\nlast\n";
    assert_eq!(gate.when(|_| {}, |_| true), expected);
    assert_eq!(writer.dropped(), 12);
}

#[test]
fn line_writer_keeps_only_important_lines_if_they_fill_the_queue() {
    let gate = Gate::default();
    let mut writer = LineWriter::start(gate.clone(), options(2 * 67, |_| {})).unwrap();
    writer.write_all(b"first\n").unwrap();
    gate.when(|_| {}, |state| state.is_entered);
    for line in ["00\n", "!0\n", "!1\n", "!2\n", "01\n"] {
        writer.write_all(line.as_bytes()).unwrap();
    }
    assert_eq!(writer.dropped(), 3);
    gate.when(|state| state.is_open = true, |_| true);
    assert!(writer.flush(WITHIN));
    assert_eq!(gate.when(|_| {}, |_| true), "first\n!0\n!1\n");
}

/// A destination whose reader has ended.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn line_writer_counts_lines_that_the_destination_refuses() {
    let recovered = |_| panic!("nothing recovers");
    let mut writer = LineWriter::start(Closed, options(10_000, recovered)).unwrap();
    for _ in 0..20 {
        writer.write_all(b"line\n").unwrap();
    }
    assert!(writer.flush(WITHIN));
    assert_eq!(writer.dropped(), 20);
}

/// A destination that does not block: it takes one byte, then refuses once.
#[derive(Clone, Default)]
struct Narrow {
    refuses: bool,
    text: Arc<Mutex<Vec<u8>>>,
}

impl Write for Narrow {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.refuses = !self.refuses;
        if self.refuses {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.text.lock().unwrap().push(text[0]);
        Ok(1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn line_writer_completes_lines_that_the_destination_takes_in_parts() {
    let narrow = Narrow::default();
    let mut writer = LineWriter::start(narrow.clone(), options(10_000, |_| {})).unwrap();
    writer.write_all(b"one\n").unwrap();
    writer.write_all(b"two\n").unwrap();
    assert!(writer.flush(WITHIN));
    assert_eq!(*narrow.text.lock().unwrap(), b"one\ntwo\n");
    assert_eq!(writer.dropped(), 0);
}
