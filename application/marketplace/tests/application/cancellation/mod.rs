//! The cancellation sweep: every caller may go away, and every process may end, at every await. Whatever it was at is
//! there whole or not at all, and the next one finds nothing in its way.

mod commands;
mod loops;
mod operations;
mod world;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// How a command is cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its caller goes away; what it began runs to its end.
    CallerGoes,
    /// Its process ends, with everything in it.
    ProcessEnds,
}

impl Cut {
    pub(crate) const BOTH: [Cut; 2] = [Cut::CallerGoes, Cut::ProcessEnds];
}

/// More polls than anything here needs.
const TOO_MANY: usize = 2_000;

/// Polls a future up to `polls` times, and lets every other task take a step after each. Tells whether it completed.
pub(crate) async fn step<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>, polls: usize) -> Option<T> {
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Runs `case` with 0, 1, 2, ... polls, each time in a world of its own, until it says that it was complete.
pub(crate) fn sweep(name: &str, case: impl AsyncFn(Cut, usize) -> bool) {
    for cut in Cut::BOTH {
        let complete = (0..TOO_MANY).find(|polls| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                // This future has its turn after each step of a task, not after 61 of them.
                .event_interval(1)
                .build()
                .expect("a runtime on this thread");
            runtime.block_on(case(cut, *polls))
        });
        let polls = complete.unwrap_or_else(|| panic!("{name} is not complete after {TOO_MANY} polls"));
        assert!(polls > 3, "{name} was complete after {polls} polls: nothing was cut");
        println!("{name}, {cut:?}: cut at each of {polls} polls");
    }
}
