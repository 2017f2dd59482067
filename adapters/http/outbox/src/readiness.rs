//! Readiness checks.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Checks whether this process can serve requests.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Returns the current problems; an empty list means ready. It SHOULD return within 1 s.
    async fn problems(&self) -> Vec<Problem>;
}

#[async_trait]
impl<F: Fn() -> Vec<Problem> + Send + Sync> Readiness for F {
    async fn problems(&self) -> Vec<Problem> {
        self()
    }
}

/// A reason why this process cannot serve. `/readyz` is public, so a problem MUST NOT contain addresses or secrets.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// The affected component: `database`, `broker`, ...
    pub part: String,
    /// Description of the problem.
    pub what: String,
}

/// Caches the result of a readiness check. At most one check runs at a time, and at most ten run per second; all other
/// callers get the cached result.
pub struct CachedReadiness<R> {
    inner: R,
    cached: Mutex<Option<(Instant, Vec<Problem>)>>,
}

impl<R: Readiness> CachedReadiness<R> {
    /// Time for which a result is cached.
    pub const CACHE_TTL: Duration = Duration::from_millis(100);

    /// Caches the results of `inner`.
    pub fn new(inner: R) -> CachedReadiness<R> {
        CachedReadiness { inner, cached: Mutex::new(None) }
    }
}

#[async_trait]
impl<R: Readiness> Readiness for CachedReadiness<R> {
    async fn problems(&self) -> Vec<Problem> {
        // A caller that waited for the lock gets the result that the caller before it has cached.
        let mut cached = self.cached.lock().await;
        if let Some((at, problems)) = &*cached
            && at.elapsed() < Self::CACHE_TTL
        {
            return problems.clone();
        }
        let problems = self.inner.problems().await;
        *cached = Some((Instant::now(), problems.clone()));
        problems
    }
}
