//! More load than there is room for: what is done stays what can be done, and the rest is told so at once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::Server;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::figures::{percentile, shown};
use crate::fresh;

/// A load comes up to speed for a while and is measured after it.
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

/// So often one load follows the other: what a machine does beside us comes and goes, and meets both.
const ROUNDS: u64 = 12;

/// How many clients find the capacity: enough to keep everybody busy, too few to be turned away.
const CLIENTS: [usize; 3] = [16, 64, 256];
/// So many times the capacity is offered, and so much of it has to be done, with a core for the server and one for the
/// clients.
const OFFERED: u64 = 5;
const GOODPUT_PERCENT: u64 = 80;
/// Who is turned away knows it as soon.
const TURNED_AWAY_WITHIN: Duration = Duration::from_millis(100);
/// Who has so many requests open sends no more.
const OPEN: usize = 3_000;

/// Runs this process, threads and all, on these cores alone, and what it starts from now on.
fn pin(cores: &str) {
    let process = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-acp", cores, &process]).output().unwrap();
    assert!(pinned.status.success(), "{}", String::from_utf8_lossy(&pinned.stderr));
}

/// This process on the second core, what was started before on the first, until it is dropped.
struct Apart;

impl Apart {
    /// The server knows from its start that it has one core.
    fn from(start: impl FnOnce() -> Server) -> (Server, Apart) {
        pin("0");
        let server = start();
        pin("1");
        (server, Apart)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        pin("0-1");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

async fn list(api: &Api) -> u16 {
    api.list_product(1, "a lamp").await.map_or(0, |answer| answer.status)
}

/// What so many clients get done in a second, one request after another each.
async fn capacity(api: &Api, clients: usize, times: Times) -> u64 {
    let (begun, mut crowd) = (Instant::now(), JoinSet::new());
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

/// What comes of so many requests a second, whatever becomes of those before: how many were offered and done in a
/// second, and how long those took that were turned away.
async fn offered(api: &Api, per_second: u64, times: Times) -> (u64, u64, Vec<Duration>) {
    let (begun, mut sent, mut counted, mut crowd) = (Instant::now(), 0_u64, 0_u64, JoinSet::new());
    let (done, open) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(OPEN)));
    // As evenly as a timer goes: they are strangers to each other.
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    while !times.are_over(begun.elapsed()) {
        tick.tick().await;
        let due = millis(begun.elapsed()) * per_second / 1_000;
        while sent < due {
            let Ok(place) = Arc::clone(&open).try_acquire_owned() else { break };
            sent += 1;
            counted += u64::from(times.counts(begun.elapsed()));
            let (api, done) = (api.clone(), Arc::clone(&done));
            crowd.spawn(async move {
                let asked = Instant::now();
                let status = list(&api).await;
                drop(place);
                if status == 201 && times.counts(begun.elapsed()) {
                    done.fetch_add(1, Ordering::Relaxed);
                }
                (status, asked.elapsed())
            });
        }
    }
    let done = done.load(Ordering::Relaxed);
    let answers = crowd.join_all().await;
    assert!(answers.iter().all(|(status, _)| matches!(status, 201 | 503)), "done, or told to come again");
    let turned_away =
        answers.into_iter().filter(|(status, _)| *status == 503).map(|(_, took)| took).collect();
    (times.per_second(counted), times.per_second(done), turned_away)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: measures how much is done"]
async fn five_times_the_capacity_leaves_most_of_it() {
    let (_folder, launch) = fresh();
    let (server, _apart) = Apart::from(|| launch.start().unwrap());
    let api = Api::of(&server);
    api.sign_in(1..=1);
    let (mut peak, mut busiest) = (1, 0);
    for clients in CLIENTS {
        let reached = capacity(&api, clients, TIMES).await;
        println!("{clients} clients: {reached}/s");
        (peak, busiest) = (peak, busiest).max((reached, clients));
    }
    let (mut peaks, mut offers, mut goodput, mut turned_away) = (0, 0, 0, Vec::new());
    for _ in 0..ROUNDS {
        let reached = capacity(&api, busiest, TIMES).await;
        let (sent, done, refused) = offered(&api, reached * OFFERED, TIMES).await;
        println!("{reached}/s of {busiest} clients; offered {sent}/s, done {done}/s");
        peaks += reached;
        offers += sent;
        goodput += done;
        turned_away.extend(refused);
    }
    println!("{} % of the peak", goodput * 100 / peaks);
    assert!(!turned_away.is_empty(), "there are fewer places than requests");
    println!("{} were turned away: {}", turned_away.len(), shown(&mut turned_away));
    assert!(offers >= peaks * 4, "the client offers too little: {offers} of {peaks}");
    assert!(percentile(&mut turned_away, 99) < TURNED_AWAY_WITHIN, "{}", shown(&mut turned_away));
    assert!(goodput * 100 >= peaks * GOODPUT_PERCENT, "{goodput} of {peaks}");
}
