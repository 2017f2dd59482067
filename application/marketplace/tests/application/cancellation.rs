//! Cancellation tests: a caller may drop its future, and a process may be killed, at every await. The interrupted work
//! is complete or has no effect, and it leaves no lock or permit that delays later work.

mod commands;
mod loops;
mod operations;
mod world;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Kind of interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The caller drops its future. A started unit of work runs to its end.
    CallerCancelled,
    /// The process is killed with all its tasks.
    ProcessKilled,
}

impl Interruption {
    pub(crate) const BOTH: [Interruption; 2] = [Interruption::CallerCancelled, Interruption::ProcessKilled];
}

/// More polls than any tested operation needs.
const MAX_POLLS: usize = 2_000;

/// Polls a future up to `polls` times and lets other tasks run after each poll. Returns the output if it completed.
pub(crate) async fn poll_up_to<T>(
    future: &mut Pin<Box<dyn Future<Output = T> + '_>>,
    polls: usize,
) -> Option<T> {
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Runs `case` with 0, 1, 2, ... polls, each time on a new runtime, until it returns that the work was complete.
pub(crate) fn interrupt_at_every_poll(name: &str, case: impl AsyncFn(Interruption, usize) -> bool) {
    for interruption in Interruption::BOTH {
        let complete = (0..MAX_POLLS).find(|polls| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                // The runtime polls the case after each step of another task, so the case can interrupt its work after
                // any step. By default the runtime polls it only after 61 steps.
                .event_interval(1)
                .build()
                .expect("cannot build a runtime");
            runtime.block_on(case(interruption, *polls))
        });
        let polls = complete.unwrap_or_else(|| panic!("{name} is not complete after {MAX_POLLS} polls"));
        assert!(polls > 3, "{name} was complete after {polls} polls: nothing was interrupted");
        println!("{name}, {interruption:?}: interrupted at each of {polls} polls");
    }
}
