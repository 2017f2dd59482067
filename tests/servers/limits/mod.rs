//! Redis goes away, forgets, stands still and talks nonsense while requests are limited by it: they go on, and no process
//! lets more in than it would without Redis. Those whose idempotency keys are there are refused until it is back.

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

/// How long something that has to happen may take on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first request that waits for Redis ends when its time is over and not before; by a clock that only the test moves.
async fn ends_at_its_deadline<T: Send + 'static>(
    clock: &ManualClock,
    request: impl Future<Output = T> + Send + 'static,
) -> T {
    let waiting = tokio::spawn(request);
    eventually(PATIENCE, async || match clock.sleepers() {
        0 => Err("it does not wait for Redis".into()),
        _ => Ok(()),
    })
    .await;
    let moment = Duration::from_millis(1);
    clock.advance(RedisSettings::TIMEOUT - moment);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "it gives up early");
    clock.advance(moment);
    at_once(waiting).await.unwrap()
}

/// What ends while the clock stands.
async fn at_once<T>(request: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, request).await.expect("it waits although the clock stands")
}

/// Lines of the program's log with this text.
fn logged(launch: &Launch, text: &str) -> usize {
    launch.log().lines().filter(|line| line.contains(text)).count()
}

/// Waits until every outage but so many is logged as over; tells how many there were. A Redis that is slower than its timeout
/// is one more.
async fn outages_logged(launch: &Launch, still_away: usize) -> usize {
    eventually(PATIENCE, async || {
        let (away, back) = (logged(launch, "Redis is away"), logged(launch, "Redis is back"));
        let told = away > 0 && away == back + still_away;
        if told { Ok(away) } else { Err(format!("{away} times away, {back} times back").into()) }
    })
    .await
}

/// What may happen to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Answers come too late.
    Late,
    /// Nothing reaches the server.
    Deaf,
    /// Nothing comes from the server.
    Dumb,
    /// It is closed, and so is every other.
    Closed,
}

impl Fault {
    const ALL: [Fault; 4] = [Fault::Late, Fault::Deaf, Fault::Dumb, Fault::Closed];

    fn strike(self, proxy: &Proxy) {
        let sound = Traffic::default();
        proxy.set(match self {
            Fault::Late => Traffic { from_server_waits: true, ..sound },
            Fault::Deaf => Traffic { to_server_vanishes: true, ..sound },
            Fault::Dumb => Traffic { from_server_vanishes: true, ..sound },
            Fault::Closed => Traffic { refuse: true, ..sound },
        });
        if self == Fault::Closed {
            proxy.cut();
        }
    }

    /// Everything is sound again; answers that were late arrive now.
    fn end(self, proxy: &Proxy) {
        proxy.set(Traffic::default());
        if self != Fault::Late {
            proxy.cut();
        }
    }
}
