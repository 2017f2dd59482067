//! How far the day is: a bar on a terminal, elsewhere a line per phase and one every five seconds. On stderr, which is
//! nobody's answer.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// How often a phase that lasts says so, where there is no bar.
const EVERY: Duration = Duration::from_secs(5);
/// How often the bar turns.
const TICK: Duration = Duration::from_millis(100);

/// How far the day is. Clones share it.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<State>>);

struct State {
    bar: Option<ProgressBar>,
    phase: &'static str,
    done: u64,
    of: u64,
    said: Instant,
}

impl Progress {
    /// Nothing has begun.
    pub fn start() -> Progress {
        let bar = stderr().is_terminal().then(ProgressBar::new_spinner);
        if let Some(bar) = &bar {
            bar.enable_steady_tick(TICK);
        }
        Progress(Arc::new(Mutex::new(State { bar, phase: "", done: 0, of: 0, said: Instant::now() })))
    }

    /// A phase of so many steps begins; 0: nobody knows how many.
    pub fn phase(&self, phase: &'static str, steps: usize) {
        let mut state = self.state();
        (state.phase, state.done, state.of) = (phase, 0, u64::try_from(steps).unwrap_or(u64::MAX));
        match &state.bar {
            Some(bar) => {
                bar.set_position(0);
                bar.set_length(state.of);
                bar.set_message(phase);
                bar.set_style(style(steps));
            }
            None => state.say(phase),
        }
    }

    /// The phase goes on under another name.
    pub fn rename(&self, phase: &'static str) {
        let mut state = self.state();
        state.phase = phase;
        match &state.bar {
            Some(bar) => bar.set_message(phase),
            None => state.say(phase),
        }
    }

    /// One step of the phase is done.
    pub fn step(&self) {
        self.steps(1);
    }

    /// So many steps of the phase are done.
    pub fn steps(&self, count: u64) {
        let mut state = self.state();
        state.done += count;
        match &state.bar {
            Some(bar) => bar.inc(count),
            None => state.say_if_due(),
        }
    }

    /// The phase goes on; this is what it waits for.
    pub fn waiting(&self, what_for: &str) {
        let mut state = self.state();
        match &state.bar {
            Some(bar) => bar.set_message(format!("{}: {what_for}", state.phase)),
            None if state.said.elapsed() >= EVERY => {
                let line = format!("{}: {what_for}", state.phase);
                state.say(&line);
            }
            None => {}
        }
    }

    /// Something that is worth a line of its own.
    pub fn tell(&self, line: &str) {
        let mut state = self.state();
        match &state.bar {
            Some(bar) => bar.suspend(|| write_line(line)),
            None => state.say(line),
        }
    }

    /// Nothing is shown from here on.
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
    fn say(&mut self, line: &str) {
        self.said = Instant::now();
        write_line(line);
    }

    fn say_if_due(&mut self) {
        if self.said.elapsed() >= EVERY {
            let line = format!("{}: {} of {}", self.phase, self.done, self.of);
            self.say(&line);
        }
    }
}

/// Whoever closed stderr does not want to know.
fn write_line(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

fn style(steps: usize) -> ProgressStyle {
    let template = match steps {
        0 => "{spinner} {msg} {elapsed}",
        _ => "{spinner} {msg:26} {bar:32} {pos}/{len} {elapsed}",
    };
    // A template that means nothing is a mistake of this file: then the bar is the default one.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
