//! The run-time switch of the faults: `overlay` puts this file into the patched copy of `handover-outbox`.
//!
//! At most one fault is active at a time, per thread: a simulated run uses only one thread.

use std::cell::Cell;

thread_local! {
    static ACTIVE: Cell<Option<&'static str>> = const { Cell::new(None) };
    static HITS: Cell<u64> = const { Cell::new(0) };
}

/// Activates one fault on this thread, or none, and sets the hit counter to zero.
pub fn activate(name: Option<&'static str>) {
    ACTIVE.set(name);
    HITS.set(0);
}

/// Number of times that the active fault has changed the behaviour of the code since `activate`.
pub fn hits() -> u64 {
    HITS.get()
}

/// Whether the named fault is active on the current thread. Counts a hit if it is.
pub fn is_active(name: &str) -> bool {
    let is_active = ACTIVE.get() == Some(name);
    if is_active {
        HITS.set(HITS.get().saturating_add(1));
    }
    is_active
}
