//! Rate limits and idempotency keys in a Redis that is killed, flushed, stopped or returns invalid responses. Rate
//! limits still apply, and no process grants more than it would without Redis. Requests with an idempotency key in
//! Redis are rejected until Redis is available again.

mod keys;
mod limiter;
mod load;
mod operators;
mod program;

use std::time::Duration;

use handover_memory::ManualClock;
use handover_tests::process::{Launch, eventually};
use handover_tests::servers::proxy::{Proxy, Traffic};
use marketplace_redis::RedisSettings;

/// Timeout for events on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Asserts that a request waits for Redis until its timeout and no longer, on a clock that only the test advances.
async fn assert_ends_at_timeout<T: Send + 'static>(
    clock: &ManualClock,
    request: impl Future<Output = T> + Send + 'static,
) -> T {
    let waiting = tokio::spawn(request);
    eventually(TIMEOUT, async || match clock.pending_sleeps() {
        0 => Err("the request does not wait for Redis".into()),
        _ => Ok(()),
    })
    .await;
    let tick = Duration::from_millis(1);
    clock.advance(RedisSettings::TIMEOUT - tick);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "the request ended before its timeout");
    clock.advance(tick);
    without_clock_step(waiting).await.unwrap()
}

/// Awaits a future that must end without a step of the clock.
async fn without_clock_step<T>(request: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, request).await.expect("the request waits although it must not")
}

/// Number of log lines that contain the text.
fn logged(launch: &Launch, text: &str) -> usize {
    launch.log().lines().filter(|line| line.contains(text)).count()
}

/// Waits until the log contains the end of all outages except `still_open` of them. Returns the number of outages; slow
/// responses of Redis also count as outages.
async fn outages_logged(launch: &Launch, still_open: usize) -> usize {
    eventually(TIMEOUT, async || {
        let unavailable = logged(launch, "redis: unavailable");
        let available = logged(launch, "redis: available again");
        let all_ended = unavailable > 0 && unavailable == available + still_open;
        if all_ended {
            Ok(unavailable)
        } else {
            Err(format!("{unavailable} outages, {available} ended").into())
        }
    })
    .await
}

/// A fault of the connection to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Responses of Redis are delayed beyond the timeout.
    Late,
    /// Requests do not reach Redis.
    RequestsLost,
    /// Responses of Redis do not reach the client.
    ResponsesLost,
    /// All connections to Redis are closed.
    Closed,
}

impl Fault {
    const ALL: [Fault; 4] = [Fault::Late, Fault::RequestsLost, Fault::ResponsesLost, Fault::Closed];

    fn start(self, proxy: &Proxy) {
        let normal = Traffic::default();
        proxy.set(match self {
            Fault::Late => Traffic { pause_from_server: true, ..normal },
            Fault::RequestsLost => Traffic { discard_to_server: true, ..normal },
            Fault::ResponsesLost => Traffic { discard_from_server: true, ..normal },
            Fault::Closed => Traffic { refuse: true, ..normal },
        });
        if self == Fault::Closed {
            proxy.cut();
        }
    }

    /// Ends the fault. Responses that the fault delayed arrive then.
    fn end(self, proxy: &Proxy) {
        proxy.set(Traffic::default());
        if self != Fault::Late {
            proxy.cut();
        }
    }
}
