//! A turn for everybody else.

use std::future::poll_fn;
use std::task::Poll;

/// Lets every other task that can run go first.
///
/// Unlike `tokio::task::yield_now` it does not have the runtime look for events of the outside before: there are none
/// for this adapter to wait for, and looking takes longer than most statements do.
pub(crate) async fn yield_now() {
    let mut had = false;
    poll_fn(|context| {
        if had {
            return Poll::Ready(());
        }
        had = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
