//! Progress on stderr: a bar on a terminal; elsewhere one line per phase and one every five seconds.

use std::io::{IsTerminal, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use super::stderr::{queue_stderr, write_line};
use crate::failure::Failure;

/// Interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Refresh interval of the bar.
const TICK: Duration = Duration::from_millis(100);

/// Progress display. Clones share its state.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<State>>);

struct State {
    bar: Option<ProgressBar>,
    phase: &'static str,
    done: u64,
    total: u64,
    printed_at: Instant,
}

impl Progress {
    /// Shows the display; no phase has begun. Without a terminal, a reader of stderr that stalls delays nothing.
    pub fn start() -> Result<Progress, Failure> {
        let bar = stderr().is_terminal().then(ProgressBar::new_spinner);
        match &bar {
            Some(bar) => bar.enable_steady_tick(TICK),
            None => drop(queue_stderr().map_err(Failure::no_log_thread)?),
        }
        Ok(Progress(Arc::new(Mutex::new(State {
            bar,
            phase: "",
            done: 0,
            total: 0,
            printed_at: Instant::now(),
        }))))
    }

    /// Begins a phase with this many steps; 0 if the number is unknown.
    pub fn phase(&self, phase: &'static str, steps: usize) {
        let mut state = self.state();
        state.phase = phase;
        state.done = 0;
        state.total = u64::try_from(steps).unwrap_or(u64::MAX);
        match &state.bar {
            Some(bar) => {
                bar.set_position(0);
                bar.set_length(state.total);
                bar.set_message(phase);
                bar.set_style(style(steps));
            }
            None => state.print(phase),
        }
    }

    /// Renames the current phase.
    pub fn rename(&self, phase: &'static str) {
        let mut state = self.state();
        state.phase = phase;
        match &state.bar {
            Some(bar) => bar.set_message(phase),
            None => state.print(phase),
        }
    }

    /// Counts one finished step of the phase.
    pub fn step(&self) {
        self.steps(1);
    }

    /// Counts finished steps of the phase.
    pub fn steps(&self, count: u64) {
        let mut state = self.state();
        state.done += count;
        match &state.bar {
            Some(bar) => bar.inc(count),
            None => state.print_if_due(),
        }
    }

    /// Shows what the current phase waits for.
    pub fn waiting(&self, what_for: &str) {
        let mut state = self.state();
        match &state.bar {
            Some(bar) => bar.set_message(format!("{}: {what_for}", state.phase)),
            None if state.printed_at.elapsed() >= LINE_INTERVAL => {
                let line = format!("{}: {what_for}", state.phase);
                state.print(&line);
            }
            None => {}
        }
    }

    /// Prints a line above the bar.
    pub fn print_line(&self, line: &str) {
        let mut state = self.state();
        match &state.bar {
            Some(bar) => bar.suspend(|| write_line(line)),
            None => state.print(line),
        }
    }

    /// Removes the display.
    pub fn end(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn print(&mut self, line: &str) {
        self.printed_at = Instant::now();
        write_line(line);
    }

    fn print_if_due(&mut self) {
        if self.printed_at.elapsed() >= LINE_INTERVAL {
            let line = format!("{}: {} of {}", self.phase, self.done, self.total);
            self.print(&line);
        }
    }
}

fn style(steps: usize) -> ProgressStyle {
    let template = match steps {
        0 => "{spinner} {msg} {elapsed}",
        _ => "{spinner} {msg:26} {bar:32} {pos}/{len} {elapsed}",
    };
    // An invalid template is a mistake in this file; fall back to the default bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
