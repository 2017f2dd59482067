//! Whether this process can serve now.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Says whether this process can serve now.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// What is wrong now; nothing means ready. It SHOULD answer within a second.
    async fn problems(&self) -> Vec<Problem>;
}

#[async_trait]
impl<F: Fn() -> Vec<Problem> + Send + Sync> Readiness for F {
    async fn problems(&self) -> Vec<Problem> {
        self()
    }
}

/// Something that keeps this process from serving. Anybody can read it: no addresses, no secrets.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// What is not as it should be: `database`, `broker`, ...
    pub part: String,
    /// What is wrong with it.
    pub what: String,
}

/// A readiness that anybody may ask for as often as they like: it asks the other one at most once at a time and ten times a
/// second, and tells everybody else what that said.
pub struct SharedReadiness<R> {
    asked: R,
    said: Mutex<Option<(Instant, Vec<Problem>)>>,
}

impl<R: Readiness> SharedReadiness<R> {
    /// How long an answer is told again.
    pub const LASTS: Duration = Duration::from_millis(100);

    /// What this one says.
    pub fn new(asked: R) -> SharedReadiness<R> {
        SharedReadiness { asked, said: Mutex::new(None) }
    }
}

#[async_trait]
impl<R: Readiness> Readiness for SharedReadiness<R> {
    async fn problems(&self) -> Vec<Problem> {
        // Whoever waits here is told what the one before has heard meanwhile.
        let mut said = self.said.lock().await;
        if let Some((at, problems)) = &*said
            && at.elapsed() < Self::LASTS
        {
            return problems.clone();
        }
        let problems = self.asked.problems().await;
        *said = Some((Instant::now(), problems.clone()));
        problems
    }
}
