//! [`with_tx`], the only way to run a unit of work.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::with_pending_counters;
use crate::ports::{Clock, RandomSource, Store, StoreError, UnitOfWork, View, outbox_of};
use crate::tasks::Tasks;

/// A boxed future that borrows the unit of work.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Retry policy for a whole unit of work.
#[derive(Debug, Clone, Copy)]
pub struct TxPolicy {
    /// Maximum number of attempts at a unit of work, including the first.
    pub attempts: NonZeroU32,
    /// Longest pause after the first failed attempt; doubled after each further failed attempt.
    pub pause: Duration,
    /// After a transient error no attempt starts once this time has passed since the first attempt started. Without
    /// this limit, the waits of all attempts for a lock of another transaction would add up.
    pub max_elapsed: Duration,
}

impl Default for TxPolicy {
    fn default() -> Self {
        TxPolicy {
            attempts: NonZeroU32::MIN.saturating_add(7),
            pause: Duration::from_millis(4),
            max_elapsed: Duration::from_secs(30),
        }
    }
}

/// Number of the current attempt at a unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt(u32);

impl Attempt {
    /// Whether an earlier attempt may have been committed, with its outcome unknown. The unit of work must then look
    /// for its own earlier writes before it decides again.
    pub const fn may_be_committed(self) -> bool {
        self.0 > 1
    }
}

/// Error type of a unit of work.
pub trait UnitError: From<StoreError> + Send + 'static {
    /// The store error that this error contains, if any.
    fn store_error(&self) -> Option<&StoreError>;
}

impl UnitError for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

/// The store and the process services that [`with_tx`] needs. Clones share them.
pub struct Transactor<U: ?Sized = dyn UnitOfWork, V: ?Sized = dyn View> {
    /// Store that begins the units of work.
    pub store: Arc<dyn Store<Unit = U, View = V>>,
    /// Tasks that run the units of work.
    pub tasks: Tasks,
    /// Clock for the pauses between attempts.
    pub clock: Arc<dyn Clock>,
    /// Random source for the jitter of the pauses.
    pub random: Arc<dyn RandomSource>,
    /// Retry policy.
    pub policy: TxPolicy,
}

impl<U: ?Sized, V: ?Sized> Transactor<U, V> {
    /// A copy of this transactor with another store.
    pub(crate) fn with_store<W: ?Sized, X: ?Sized>(
        &self,
        store: Arc<dyn Store<Unit = W, View = X>>,
    ) -> Transactor<W, X> {
        Transactor {
            store,
            tasks: self.tasks.clone(),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            policy: self.policy,
        }
    }

    /// A transactor for background work. It uses separate permits for units of work, so that background work does not
    /// wait behind requests.
    pub fn for_background_tasks(&self) -> Transactor<U, V> {
        Transactor { tasks: self.tasks.for_background_tasks(), ..self.clone() }
    }
}

impl<U: UnitOfWork + ?Sized + 'static, V: View + ?Sized + 'static> Transactor<U, V> {
    /// A transactor on the same store, reduced to the outbox ports.
    pub fn outbox(&self) -> Transactor {
        self.with_store(outbox_of(&self.store))
    }
}

// `derive(Clone)` would also require `U: Clone` and `V: Clone`.
impl<U: ?Sized, V: ?Sized> Clone for Transactor<U, V> {
    fn clone(&self) -> Self {
        self.with_store(Arc::clone(&self.store))
    }
}

/// Runs `work` in a unit of work and commits it.
///
/// - The whole attempt is repeated after a conflict, a transient error or a commit of unknown outcome. `work` must
///   therefore not generate ids or read the clock: the caller does both before this call.
/// - After an error nothing is committed, unless the outcome of an attempt is unknown.
/// - The unit of work runs as a separate task: a cancelled caller cannot interrupt it between begin and commit.
pub async fn with_tx<U, V, T, E, F>(tx: &Transactor<U, V>, work: F) -> Result<T, E>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    T: Send + 'static,
    E: UnitError,
    F: for<'u> Fn(&'u mut U, Attempt) -> BoxFuture<'u, Result<T, E>> + Send + Sync + 'static,
{
    let context = tx.clone();
    let task = tx.tasks.spawn(async move { attempts(&context, &work).await });
    match task.await {
        Ok(Some(result)) => result,
        Ok(None) => Err(StoreError::Unavailable("the process is shutting down".into()).into()),
        Err(error) => Err(StoreError::Backend(Box::new(error)).into()),
    }
}

async fn attempts<U, V, T, E, F>(tx: &Transactor<U, V>, work: &F) -> Result<T, E>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    E: UnitError,
    F: for<'u> Fn(&'u mut U, Attempt) -> BoxFuture<'u, Result<T, E>>,
{
    let _permit = tx
        .tasks
        .units()
        .acquire()
        .await
        .map_err(|error| E::from(StoreError::Unavailable(Box::new(error))))?;
    let mut number = 1;
    let started_at = tx.clock.now();
    loop {
        let error = match with_pending_counters(attempt(tx, work, Attempt(number))).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let elapsed = (tx.clock.now() - started_at).to_std().unwrap_or_default();
        let retryable = error.store_error().is_some_and(|error| {
            error.is_retryable()
                && (!matches!(error, StoreError::Transient(_)) || elapsed < tx.policy.max_elapsed)
        });
        if !retryable || number >= tx.policy.attempts.get() {
            return Err(error);
        }
        let longest = tx.policy.pause.saturating_mul(1 << (number - 1).min(10));
        tx.clock.sleep(longest.mul_f64(0.5 + (tx.random.next() >> 40) as f64 / f64::from(1u32 << 25))).await;
        number += 1;
    }
}

async fn attempt<U, V, T, E, F>(tx: &Transactor<U, V>, work: &F, attempt: Attempt) -> Result<T, E>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    E: UnitError,
    F: for<'u> Fn(&'u mut U, Attempt) -> BoxFuture<'u, Result<T, E>>,
{
    let mut unit = tx.store.begin().await?;
    let value = work(unit.as_mut(), attempt).await?;
    unit.commit().await?;
    Ok(value)
}
