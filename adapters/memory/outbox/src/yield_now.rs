//! Yielding to other tasks.

use std::future::poll_fn;
use std::task::Poll;

/// Yields once, so that all other ready tasks run first.
///
/// Unlike `tokio::task::yield_now` it does not make the runtime poll its I/O driver: this adapter waits for no I/O, and
/// polling takes longer than most statements.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
