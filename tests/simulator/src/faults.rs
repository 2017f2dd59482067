//! The faults of a run, and the random decisions about when each fault occurs. Each fault is a variant of [`Fault`].

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::coverage::Coverage;
use super::fault_kinds::{CrashPoint, Fault};
use super::observations::Observations;
use super::profile::Profile;
use super::random_numbers::RandomNumbers;
use super::story::Line;

/// Maximum duration of a stalled call, in milliseconds.
const MAX_STALL_MS: u64 = 6_000;

/// State that all ports of a run share. Clones share the state.
#[derive(Clone)]
pub(crate) struct Faults {
    pub(crate) random: RandomNumbers,
    shared: Arc<Shared>,
}

struct Shared {
    rates: Vec<u64>,
    points: BTreeSet<CrashPoint>,
    is_recorded: bool,
    begun: tokio::time::Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    healed: bool,
    unroutable: bool,
    story: Vec<Line>,
    violations: Vec<String>,
    coverage: Coverage,
    observed: Observations,
    open_views: HashMap<tokio::task::Id, u32>,
}

/// Marks a task as having an open view until this value is dropped.
pub(crate) struct OpenView {
    task: tokio::task::Id,
    faults: Faults,
}

impl Drop for OpenView {
    fn drop(&mut self) {
        if let Some(open) = self.faults.state().open_views.get_mut(&self.task) {
            *open -= 1;
        }
    }
}

impl Faults {
    /// Enables a random subset of the faults, each with a random rate up to its maximum.
    pub(crate) fn new(
        random: RandomNumbers,
        of_archive: &RandomNumbers,
        profile: Profile,
        is_recorded: bool,
    ) -> Faults {
        let rate = |fault: &Fault| {
            let random = if fault.port() == "archive" { of_archive } else { &random };
            let enabled = random.permille(profile.share(*fault));
            // Faults are rare in some runs: a frequent fault would hide the consequences of a single occurrence.
            let scale = random.below(4) + 1;
            if enabled { (fault.rate() * scale).div_ceil(4) } else { 0 }
        };
        let rates = Fault::ALL.iter().map(rate).collect();
        let is_possible = |point: &&CrashPoint| {
            if point.is_of_archive() { of_archive.permille(700) } else { random.permille(400) }
        };
        let points = CrashPoint::ALL.iter().filter(is_possible).copied().collect();
        let begun = tokio::time::Instant::now();
        let shared = Shared { rates, points, is_recorded, begun, state: Mutex::default() };
        Faults { random, shared: Arc::new(shared) }
    }

    /// Ends the fault phase.
    pub(crate) fn heal(&self) {
        self.note("world", || "faults end".to_owned());
        let mut state = self.state();
        state.healed = true;
        state.unroutable = false;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.state().healed
    }

    /// Whether this fault is enabled in this run.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.shared.rates.get(fault as usize).is_some_and(|rate| *rate > 0)
    }

    /// Decides at random whether the fault occurs at this call.
    pub(crate) fn occurs(&self, fault: Fault) -> bool {
        let rate = self.shared.rates.get(fault as usize).copied().unwrap_or(0);
        if rate == 0 || self.is_healed() || !self.random.permille(rate) {
            return false;
        }
        self.state().coverage.fault(fault);
        true
    }

    /// Decides whether the process crashes at this point.
    pub(crate) fn crashes_at(&self, point: CrashPoint) -> bool {
        let possible = self.shared.points.contains(&point) && !self.is_healed();
        if !possible || !self.random.permille(point.rate()) || !self.occurs(Fault::KilledAtPoint) {
            return false;
        }
        self.state().coverage.point(point);
        true
    }

    /// Whether attempts at events affected by [`Fault::Poison`] fail. They fail only during the fault phase.
    pub(crate) fn is_poisoned(&self) -> bool {
        let poisoned = self.has(Fault::Poison) && !self.is_healed();
        if poisoned {
            self.cover(|coverage| coverage.fault(Fault::Poison));
        }
        poisoned
    }

    pub(crate) fn set_unroutable(&self, unroutable: bool) {
        let mut state = self.state();
        state.unroutable = unroutable && !state.healed;
    }

    pub(crate) fn is_unroutable(&self) -> bool {
        self.state().unroutable
    }

    /// Waits for the end of calls that stalled before the fault phase ended.
    pub(crate) async fn wait_for_stalled_calls(&self) {
        self.sleep(Duration::from_millis(MAX_STALL_MS)).await;
    }

    /// Simulates the duration of a call: usually short, sometimes longer than a lease.
    pub(crate) async fn delay(&self) {
        if self.is_healed() {
            // After the fault phase calls take no time. Other tasks still run, because the memory adapters yield.
            return;
        }
        let pause = if self.occurs(Fault::Stall) {
            self.random.millis(1_500..MAX_STALL_MS)
        } else if self.occurs(Fault::Slow) {
            self.random.millis(0..400)
        } else {
            self.random.millis(0..15)
        };
        self.sleep(pause).await;
    }

    #[allow(clippy::disallowed_methods, reason = "the simulator runs on virtual time")]
    pub(crate) async fn sleep(&self, pause: Duration) {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    /// Adds a line to the log of the run, if it is recorded.
    pub(crate) fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if self.shared.is_recorded {
            let line = Line { at: self.shared.begun.elapsed(), who: who.to_owned(), what: what() };
            self.state().story.push(line);
        }
    }

    /// Whether the log is recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.shared.is_recorded
    }

    pub(crate) fn story(&self) -> Vec<Line> {
        std::mem::take(&mut self.state().story)
    }

    /// Records a violation of an invariant. It counts even if the system recovers from it.
    pub(crate) fn violation(&self, what: String) {
        self.note("oracle", || format!("VIOLATION: {what}"));
        let mut state = self.state();
        if !state.violations.contains(&what) {
            state.violations.push(what);
        }
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    pub(crate) fn cover(&self, add: impl FnOnce(&mut Coverage)) {
        add(&mut self.state().coverage);
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.state().coverage.clone()
    }

    /// Accesses the observations of the ports.
    pub(crate) fn observed<T>(&self, access: impl FnOnce(&mut Observations) -> T) -> T {
        access(&mut self.state().observed)
    }

    /// Records that the current task opens a view. While a task holds a view, it must not request another connection
    /// from the store (also not for the broker's tables): with a pool of four readers, four such tasks would deadlock.
    pub(crate) fn open_view(&self) -> Option<OpenView> {
        let task = tokio::task::try_id()?;
        self.needs_connection("a second view");
        *self.state().open_views.entry(task).or_insert(0) += 1;
        Some(OpenView { task, faults: self.clone() })
    }

    /// Reports a violation if the current task holds a view when it makes a call that may need another connection.
    pub(crate) fn needs_connection(&self, what: &str) {
        let Some(task) = tokio::task::try_id() else { return };
        let open = self.state().open_views.get(&task).is_some_and(|open| *open > 0);
        if open {
            self.violation(format!("a task that holds a view requested {what}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
