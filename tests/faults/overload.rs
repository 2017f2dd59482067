//! More load than there is room for: what is done stays what can be done, and the rest is told so at once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::figures::{percentile, shown};
use crate::{alone, fresh};

/// How long each load lasts.
fn lasts() -> Duration {
    Duration::from_secs(if handover_tests::long() { 10 } else { 3 })
}

/// How many clients find the capacity: enough to keep everybody busy, too few to be turned away.
const CLIENTS: [usize; 3] = [16, 64, 256];
/// So many times the capacity is offered, and so much of it has to be done, on a quiet machine with a core for the
/// server and one for the clients.
const OFFERED: u64 = 5;
const GOODPUT_PERCENT: u64 = 80;
/// Who is turned away knows it as soon.
const TURNED_AWAY_WITHIN: Duration = Duration::from_millis(100);
/// Who has so many requests open sends no more.
const OPEN: usize = 3_000;

/// Runs a process, threads and all, on these cores alone.
fn pin(process: u32, cores: &str) {
    let pinned = Command::new("taskset").args(["-acp", cores, &process.to_string()]).output().unwrap();
    assert!(pinned.status.success(), "{}", String::from_utf8_lossy(&pinned.stderr));
}

/// This process on the second core and the server on the first, until it is dropped.
struct Apart;

impl Apart {
    fn put(server: u32) -> Apart {
        pin(server, "0");
        pin(std::process::id(), "1");
        Apart
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        pin(std::process::id(), "0-1");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

async fn list(api: &Api) -> u16 {
    api.list_product(1, "a lamp").await.map_or(0, |answer| answer.status)
}

/// What so many clients get done in a second, one request after another each.
async fn capacity(api: &Api, clients: usize, lasts: Duration) -> u64 {
    let (begun, mut crowd) = (Instant::now(), JoinSet::new());
    for _ in 0..clients {
        let api = api.clone();
        crowd.spawn(async move {
            let mut done = 0_u64;
            while begun.elapsed() < lasts {
                done += u64::from(list(&api).await == 201);
            }
            done
        });
    }
    let done: u64 = crowd.join_all().await.into_iter().sum();
    done * 1_000 / millis(begun.elapsed())
}

/// What comes of so many requests a second, whatever becomes of those before: how many were offered and done in a
/// second, and how long those took that were turned away.
async fn offered(api: &Api, per_second: u64, lasts: Duration) -> (u64, u64, Vec<Duration>) {
    let (begun, mut sent, mut crowd) = (Instant::now(), 0_u64, JoinSet::new());
    let (done, open) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(OPEN)));
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    while begun.elapsed() < lasts {
        tick.tick().await;
        let due = millis(begun.elapsed()) * per_second / 1_000;
        while sent < due {
            let Ok(place) = Arc::clone(&open).try_acquire_owned() else { break };
            sent += 1;
            let (api, done) = (api.clone(), Arc::clone(&done));
            crowd.spawn(async move {
                let asked = Instant::now();
                let status = list(&api).await;
                drop(place);
                if status == 201 && begun.elapsed() < lasts {
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
    (sent / lasts.as_secs(), done / lasts.as_secs(), turned_away)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_times_the_capacity_leaves_most_of_it() {
    let _turn = alone().await;
    let lasts = lasts();
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let _apart = handover_tests::long().then(|| Apart::put(server.id()));
    let api = Api::of(&server);
    api.sign_in(1..=1);
    let mut peak = 1;
    for clients in CLIENTS {
        let reached = capacity(&api, clients, lasts).await;
        println!("{clients} clients: {reached}/s");
        peak = peak.max(reached);
    }
    let (sent, done, mut turned_away) = offered(&api, peak * OFFERED, lasts).await;
    println!("offered {sent}/s, done {done}/s, {} % of the peak", done * 100 / peak);
    if !turned_away.is_empty() {
        println!("{} were turned away: {}", turned_away.len(), shown(&mut turned_away));
    }
    if handover_tests::long() {
        assert!(!turned_away.is_empty(), "there are fewer places than requests");
        assert!(sent >= peak * 4, "the client offers too little: {sent}/s");
        assert!(percentile(&mut turned_away, 99) < TURNED_AWAY_WITHIN, "{}", shown(&mut turned_away));
        assert!(done * 100 >= peak * GOODPUT_PERCENT, "{done}/s of {peak}/s");
    }
}
