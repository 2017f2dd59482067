//! More load than capacity: throughput stays near the capacity, and excess requests are rejected quickly.

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::Server;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::figures::{percentile, summary};
use crate::fresh;

/// Durations of a measurement: first the warm-up (`lead`), then the time in which requests are counted (`measured`).
#[derive(Clone, Copy)]
struct Times {
    lead: Duration,
    measured: Duration,
}

impl Times {
    fn counts(self, since: Duration) -> bool {
        (self.lead..self.lead + self.measured).contains(&since)
    }

    fn are_over(self, since: Duration) -> bool {
        since >= self.lead + self.measured
    }

    fn per_second(self, count: u64) -> u64 {
        count * 1_000 / millis(self.measured)
    }
}

const TIMES: Times = Times { lead: Duration::from_secs(1), measured: Duration::from_secs(3) };

/// Number of rounds. Each round measures first the capacity and then the throughput under overload, so that other work
/// on the machine affects both.
const ROUNDS: u64 = 12;

/// Client counts with which the capacity is measured: enough for full load, too few for rejections.
const CLIENTS: [usize; 3] = [16, 64, 256];
/// The offered load is `OFFERED` times the capacity, and the completed requests must reach `GOODPUT_PERCENT` of the
/// capacity. The server has one core, the clients another.
const OFFERED: u64 = 5;
const GOODPUT_PERCENT: u64 = 80;
/// 99 % of the rejected requests must be rejected within this time.
const REJECTED_WITHIN: Duration = Duration::from_millis(100);
/// Number of busy processes on the server's core.
const BUSY_PROCESSES: usize = 4;
/// Maximum number of open requests of the client.
const OPEN: usize = 3_000;

/// Pins this process with all its threads, and processes that it starts later, to these cores.
fn pin(cores: &str) {
    let process = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-acp", cores, &process]).output().unwrap();
    assert!(pinned.status.success(), "{}", String::from_utf8_lossy(&pinned.stderr));
}

/// Keeps the server on the first core, and this process on the second core until the value is dropped. Busy processes
/// share the first core with the server: one core of the client can then offer several times the server's capacity.
struct SeparateCores {
    busy: Vec<Child>,
}

impl SeparateCores {
    /// Starts the server on one core, because it derives its limits from the number of cores at startup.
    fn from(start: impl FnOnce() -> Server) -> (Server, SeparateCores) {
        pin("0");
        let server = start();
        let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let busy = std::iter::repeat_with(busy).take(BUSY_PROCESSES).collect();
        pin("1");
        (server, SeparateCores { busy })
    }
}

impl Drop for SeparateCores {
    fn drop(&mut self) {
        for process in &mut self.busy {
            let _ = process.kill();
            let _ = process.wait();
        }
        pin("0-1");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

async fn list(api: &Api) -> u16 {
    api.list_product(1, "a lamp").await.map_or(0, |response| response.status)
}

/// Number of requests per second that this many clients complete if each sends its requests one after another.
async fn capacity(api: &Api, clients: usize, times: Times) -> u64 {
    let begun = Instant::now();
    let mut crowd = JoinSet::new();
    for _ in 0..clients {
        let api = api.clone();
        crowd.spawn(async move {
            let mut done = 0_u64;
            while !times.are_over(begun.elapsed()) {
                done += u64::from(list(&api).await == 201 && times.counts(begun.elapsed()));
            }
            done
        });
    }
    times.per_second(crowd.join_all().await.into_iter().sum())
}

/// Sends requests at a fixed rate, independent of responses. Returns requests sent and completed per second, and the
/// latencies of rejected requests.
async fn offered(api: &Api, per_second: u64, times: Times) -> (u64, u64, Vec<Duration>) {
    let begun = Instant::now();
    let mut sent = 0_u64;
    let mut counted = 0_u64;
    let mut crowd = JoinSet::new();
    let done = Arc::new(AtomicU64::new(0));
    let open = Arc::new(Semaphore::new(OPEN));
    // The requests are sent at even intervals and, like those of independent clients, do not wait for responses.
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    while !times.are_over(begun.elapsed()) {
        tick.tick().await;
        let due = millis(begun.elapsed()) * per_second / 1_000;
        while sent < due {
            let Ok(permit) = Arc::clone(&open).try_acquire_owned() else { break };
            sent += 1;
            counted += u64::from(times.counts(begun.elapsed()));
            let api = api.clone();
            let done = Arc::clone(&done);
            crowd.spawn(async move {
                let sent_at = Instant::now();
                let status = list(&api).await;
                drop(permit);
                if status == 201 && times.counts(begun.elapsed()) {
                    done.fetch_add(1, Ordering::Relaxed);
                }
                (status, sent_at.elapsed())
            });
        }
    }
    let done = done.load(Ordering::Relaxed);
    let results = crowd.join_all().await;
    assert!(
        results.iter().all(|(status, _)| matches!(status, 201 | 503)),
        "each request must be completed or rejected with 503"
    );
    let rejected = results.into_iter().filter(|(status, _)| *status == 503).map(|(_, took)| took).collect();
    (times.per_second(counted), times.per_second(done), rejected)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: measures completed requests per second"]
async fn throughput_stays_near_capacity_when_offered_load_is_five_times_capacity() {
    let (_folder, launch) = fresh();
    let (server, _cores) = SeparateCores::from(|| launch.start().unwrap());
    let api = Api::of(&server);
    api.issue_tokens(1..=1);
    let mut peak = 1;
    let mut busiest = 0;
    for clients in CLIENTS {
        let reached = capacity(&api, clients, TIMES).await;
        println!("{clients} clients: {reached}/s");
        (peak, busiest) = (peak, busiest).max((reached, clients));
    }
    let mut peaks = 0;
    let mut offers = 0;
    let mut goodput = 0;
    let mut rejected = Vec::new();
    for _ in 0..ROUNDS {
        let reached = capacity(&api, busiest, TIMES).await;
        let (sent, done, refused) = offered(&api, reached * OFFERED, TIMES).await;
        println!("{reached}/s completed for {busiest} clients; at {sent}/s offered, {done}/s completed");
        peaks += reached;
        offers += sent;
        goodput += done;
        rejected.extend(refused);
    }
    println!("completed under overload: {} % of the capacity", goodput * 100 / peaks);
    assert!(!rejected.is_empty(), "no request was rejected");
    println!("{} requests were rejected: {}", rejected.len(), summary(&mut rejected));
    assert!(offers >= peaks * 4, "the offered load, {offers}, is less than four times the capacity, {peaks}");
    assert!(percentile(&mut rejected, 99) < REJECTED_WITHIN, "{}", summary(&mut rejected));
    assert!(
        goodput * 100 >= peaks * GOODPUT_PERCENT,
        "completed {goodput} of the capacity {peaks}, expected at least {GOODPUT_PERCENT} %"
    );
}
