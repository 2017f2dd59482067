//! Continuous requests and their results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use handover_tests::process::eventually;
use marketplace::ports::{Bucket, LimitKey, RateLimitDecision, RateLimiter};
use tokio::task::JoinSet;

use super::TIMEOUT;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestResult {
    /// Time since the start of the load.
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) granted: bool,
}

/// Clients of one process.
pub(crate) struct Load {
    began: Instant,
    stop: Arc<AtomicBool>,
    results: Arc<Mutex<Vec<RequestResult>>>,
    clients: JoinSet<()>,
}

impl Load {
    /// Starts clients that each send one request at a time.
    pub(crate) fn start(limiter: Arc<dyn RateLimiter>, key: &LimitKey, bucket: Bucket, clients: u32) -> Load {
        let began = Instant::now();
        let stop = Arc::<AtomicBool>::default();
        let results = Arc::<Mutex<Vec<_>>>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let limiter = Arc::clone(&limiter);
            let key = key.clone();
            let stop = Arc::clone(&stop);
            let results = Arc::clone(&results);
            tasks.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let from = began.elapsed();
                    let granted = matches!(limiter.take(&key, bucket).await, RateLimitDecision::Token { .. });
                    results.lock().unwrap().push(RequestResult { from, to: began.elapsed(), granted });
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
        }
        Load { began, stop, results, clients: tasks }
    }

    /// Waits until a request that starts after this call is granted.
    pub(crate) async fn wait_for_grant(&self) {
        let now = self.began.elapsed();
        let is_later = |request: &RequestResult| request.granted && request.from > now;
        eventually(TIMEOUT, async || match self.results.lock().unwrap().iter().any(is_later) {
            true => Ok(()),
            false => Err("no request is granted".into()),
        })
        .await;
    }

    /// Stops the load and returns all results.
    pub(crate) async fn stop(mut self) -> Vec<RequestResult> {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut self.results.lock().unwrap())
    }
}

/// Asserts that in no period more requests are granted than allowed by the given number of buckets and their refill.
#[track_caller]
pub(crate) fn assert_within_limits(results: &[RequestResult], bucket: Bucket, buckets: usize) {
    let mut granted: Vec<_> = results.iter().filter(|request| request.granted).collect();
    granted.sort_unstable_by_key(|request| request.from);
    for (first, early) in granted.iter().enumerate() {
        let mut latest = early.to;
        for (last, late) in granted.iter().enumerate().skip(first) {
            latest = latest.max(late.to);
            let passed = latest - early.from;
            let refilled = (passed.as_nanos() / bucket.refill_interval().as_nanos()) as usize;
            let count = last - first + 1;
            let most = buckets * (bucket.capacity().get() as usize + refilled);
            assert!(
                count <= most,
                "{count} requests were granted within {passed:?} instead of at most {most}"
            );
        }
    }
}
