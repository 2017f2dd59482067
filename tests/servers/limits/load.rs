//! Requests without a pause, and what became of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use handover_tests::process::eventually;
use marketplace::ports::{Bucket, LimitKey, RateLimiter, Taken};
use tokio::task::JoinSet;

use super::PATIENCE;

/// What became of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Since the load began.
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) let_in: bool,
}

/// Clients of one process.
pub(crate) struct Load {
    began: Instant,
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
    clients: JoinSet<()>,
}

impl Load {
    /// So many clients, each with at most one request at a time.
    pub(crate) fn start(limiter: Arc<dyn RateLimiter>, key: &LimitKey, bucket: Bucket, clients: u32) -> Load {
        let (began, stop, asked) =
            (Instant::now(), Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<_>>>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (limiter, key) = (Arc::clone(&limiter), key.clone());
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
            tasks.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let from = began.elapsed();
                    let let_in = matches!(limiter.take(&key, bucket).await, Taken::Token { .. });
                    asked.lock().unwrap().push(Asked { from, to: began.elapsed(), let_in });
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
        }
        Load { began, stop, asked, clients: tasks }
    }

    /// Waits until a request is let in that was made after this call.
    pub(crate) async fn lets_in(&self) {
        let now = self.began.elapsed();
        let is_later = |asked: &Asked| asked.let_in && asked.from > now;
        eventually(PATIENCE, async || match self.asked.lock().unwrap().iter().any(is_later) {
            true => Ok(()),
            false => Err("nobody is let in".into()),
        })
        .await;
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) -> Vec<Asked> {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Fails if in some stretch of time more were let in than so many buckets and their pace allow.
#[track_caller]
pub(crate) fn within_limits(asked: &[Asked], bucket: Bucket, buckets: usize) {
    let mut let_in: Vec<_> = asked.iter().filter(|asked| asked.let_in).collect();
    let_in.sort_unstable_by_key(|asked| asked.from);
    for (first, early) in let_in.iter().enumerate() {
        let mut latest = early.to;
        for (last, late) in let_in.iter().enumerate().skip(first) {
            latest = latest.max(late.to);
            let passed = latest - early.from;
            let grown = (passed.as_nanos() / bucket.token_every().as_nanos()) as usize;
            let (count, most) = (last - first + 1, buckets * (bucket.capacity().get() as usize + grown));
            assert!(count <= most, "{count} were let in within {passed:?}, and {most} may be");
        }
    }
}
