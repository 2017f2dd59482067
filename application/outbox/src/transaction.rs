//! [`with_tx`], the only way to run a unit of work.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::metrics::with_measurements;
use crate::ports::{Clock, RandomSource, Store, StoreError, UnitOfWork, View, outbox_of};
use crate::tasks::Tasks;

/// Time that work in progress gets to end after the process began to stop.
const GRACE: Duration = Duration::from_secs(5);

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

/// The outcome of the attempts before the current one at a unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// This is the first attempt.
    First,
    /// All earlier attempts failed before their commit took effect. The database may still be rolling one back, and hold its locks.
    AfterRollback,
    /// The outcome of an earlier attempt is unknown ([`StoreError::CommitUnknown`]).
    AfterUnknownCommit,
}

impl Attempt {
    /// Whether an earlier attempt may have been committed. The unit of work must then look for its own earlier writes
    /// before it decides again. If this is false, another process has written a row that looks like its own.
    pub const fn may_be_committed(self) -> bool {
        matches!(self, Attempt::AfterUnknownCommit)
    }

    /// Whether there was an earlier attempt. Data that was read before the unit of work may then be out of date, and an id
    /// that was chosen before it may belong to another row.
    pub const fn is_repeated(self) -> bool {
        !matches!(self, Attempt::First)
    }

    const fn after(self, error: &StoreError) -> Attempt {
        match (self, error) {
            (Attempt::AfterUnknownCommit, _) | (_, StoreError::CommitUnknown(_)) => {
                Attempt::AfterUnknownCommit
            }
            (Attempt::First | Attempt::AfterRollback, _) => Attempt::AfterRollback,
        }
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
    store: Arc<dyn Store<Unit = U, View = V>>,
    tasks: Tasks,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    policy: TxPolicy,
    unrecorded_reads: Arc<Mutex<Vec<String>>>,
}

/// Most reads that are remembered because their audit entry could not be written.
const MAX_UNRECORDED_READS: usize = 10;

impl<U: ?Sized, V: ?Sized> Transactor<U, V> {
    /// A transactor with the default retry policy. The clock times the pauses between attempts, the random source their
    /// jitter, and the units of work run as tasks.
    pub fn new(
        store: Arc<dyn Store<Unit = U, View = V>>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        tasks: Tasks,
    ) -> Transactor<U, V> {
        let policy = TxPolicy::default();
        Transactor { store, tasks, clock, random, policy, unrecorded_reads: Arc::default() }
    }

    /// Store that begins the units of work.
    pub fn store(&self) -> &Arc<dyn Store<Unit = U, View = V>> {
        &self.store
    }

    /// Clock of the deployment.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Random source of the process.
    pub fn random(&self) -> &Arc<dyn RandomSource> {
        &self.random
    }

    /// Tasks of the process.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Current time of the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Waits for a time of the deployment's clock.
    pub async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Runs a future as a task of the process ([`Tasks::spawn`]).
    pub fn spawn<F>(&self, work: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(work)
    }

    /// Token that is cancelled when the process has to stop ([`Tasks::stopping`]).
    pub fn stopping(&self) -> &CancellationToken {
        self.tasks.stopping()
    }

    /// Waits until the process has begun to stop and the time has passed that work in progress gets to end.
    pub(crate) async fn end_of_grace(&self) {
        self.stopping().cancelled().await;
        self.sleep(GRACE).await;
    }

    /// A copy of this transactor with another store.
    pub fn with_store<W: ?Sized, X: ?Sized>(
        &self,
        store: Arc<dyn Store<Unit = W, View = X>>,
    ) -> Transactor<W, X> {
        Transactor {
            store,
            tasks: self.tasks.clone(),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            policy: self.policy,
            unrecorded_reads: Arc::clone(&self.unrecorded_reads),
        }
    }

    /// The first reads by operators whose audit entry the database refused, with the reason.
    pub fn unrecorded_reads(&self) -> Vec<String> {
        self.unrecorded_reads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_unrecorded_read(&self, read: String) {
        let mut reads = self.unrecorded_reads.lock().unwrap_or_else(PoisonError::into_inner);
        if reads.len() < MAX_UNRECORDED_READS {
            reads.push(read);
        }
    }

    /// A copy that starts no attempt at a unit of work after this time ([`TxPolicy::max_elapsed`]).
    pub(crate) fn with_max_elapsed(self, max_elapsed: Duration) -> Transactor<U, V> {
        Transactor { policy: TxPolicy { max_elapsed, ..self.policy }, ..self }
    }

    /// A transactor for background work. It uses separate permits for units of work, so that background work does not
    /// wait behind requests.
    pub fn for_background_tasks(&self) -> Transactor<U, V> {
        Transactor { tasks: self.tasks.for_background_tasks(), ..self.clone() }
    }

    /// A transactor with these tasks, for example with other permits.
    pub(crate) fn with_tasks(&self, tasks: &Tasks) -> Transactor<U, V> {
        Transactor { tasks: tasks.clone(), ..self.clone() }
    }
}

impl<U: UnitOfWork + ?Sized + 'static, V: View + ?Sized + 'static> Transactor<U, V> {
    /// Begins a unit of work without retries; see [`with_tx`].
    pub async fn begin(&self) -> Result<Box<U>, StoreError> {
        self.store.begin().await
    }

    /// Opens a view for reading.
    pub async fn view(&self) -> Result<Box<V>, StoreError> {
        self.store.view().await
    }

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

/// Runs `work` in a unit of work and commits it. Every attempt borrows `input`: what the work needs, `()` if it needs nothing
/// that it cannot copy.
///
/// - The whole attempt is repeated after a conflict, a transient error or a commit of unknown outcome. `work` must
///   therefore not generate ids or read the clock: the caller does both before this call.
/// - After an outage nothing is committed, except after [`StoreError::CommitUnknown`], which is also returned if an outage
///   ends the attempts after a commit of unknown outcome. Another error, for example a conflict, may follow such a commit.
/// - The unit of work runs as a separate task: a cancelled caller cannot interrupt it between begin and commit.
pub fn with_tx<U, V, T, E, I, F>(
    tx: &Transactor<U, V>,
    input: I,
    work: F,
) -> impl Future<Output = Result<T, E>> + Send
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    T: Send + 'static,
    E: UnitError,
    I: Send + Sync + 'static,
    F: for<'u> Fn(&'u mut U, &'u I, Attempt) -> BoxFuture<'u, Result<T, E>> + Send + Sync + 'static,
{
    run(tx, Box::new(WithInput { input, work }))
}

/// The work of one call of [`with_tx`]. What runs it is compiled once per type of the result instead of once per call.
trait Work<U: ?Sized, T, E>: Send + Sync {
    fn attempt<'u>(&'u self, unit: &'u mut U, attempt: Attempt) -> BoxFuture<'u, Result<T, E>>;
}

struct WithInput<I, F> {
    input: I,
    work: F,
}

impl<U, T, E, I, F> Work<U, T, E> for WithInput<I, F>
where
    U: ?Sized,
    I: Send + Sync,
    F: for<'u> Fn(&'u mut U, &'u I, Attempt) -> BoxFuture<'u, Result<T, E>> + Send + Sync,
{
    fn attempt<'u>(&'u self, unit: &'u mut U, attempt: Attempt) -> BoxFuture<'u, Result<T, E>> {
        (self.work)(unit, &self.input, attempt)
    }
}

async fn run<U, V, T, E>(tx: &Transactor<U, V>, work: Box<dyn Work<U, T, E>>) -> Result<T, E>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    T: Send + 'static,
    E: UnitError,
{
    let context = tx.clone();
    let task = tx.tasks.spawn(async move { attempts(&context, &*work).await });
    match task.await {
        Ok(Some(result)) => result,
        Ok(None) => Err(StoreError::Unavailable("the process is shutting down".into()).into()),
        Err(error) => Err(StoreError::Backend(Box::new(error)).into()),
    }
}

async fn attempts<U, V, T, E>(tx: &Transactor<U, V>, work: &dyn Work<U, T, E>) -> Result<T, E>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    E: UnitError,
{
    let _permit = tx.tasks.permit().await.map_err(E::from)?;
    let mut number = 1;
    let mut current = Attempt::First;
    let mut unknown = None;
    let started_at = tx.clock.now();
    loop {
        let error = match with_measurements(attempt(tx, work, current)).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let elapsed = (tx.clock.now() - started_at).to_std().unwrap_or_default();
        let is_in_time = |error: &StoreError| {
            !matches!(error, StoreError::Transient(_)) || elapsed < tx.policy.max_elapsed
        };
        let Some(cause) = error.store_error() else { return Err(error) };
        if !cause.is_retryable() || !is_in_time(cause) || number >= tx.policy.attempts.get() {
            let is_outage = cause.is_outage();
            return Err(unknown.filter(|_| is_outage).unwrap_or(error));
        }
        current = current.after(cause);
        if matches!(cause, StoreError::CommitUnknown(_)) {
            unknown = Some(error);
        }
        let longest = tx.policy.pause.saturating_mul(1 << (number - 1).min(10));
        tx.clock.sleep(longest.mul_f64(0.5 + (tx.random.next() >> 40) as f64 / f64::from(1u32 << 25))).await;
        number += 1;
    }
}

async fn attempt<U, V, T, E>(
    tx: &Transactor<U, V>,
    work: &dyn Work<U, T, E>,
    attempt: Attempt,
) -> Result<T, E>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
    E: UnitError,
{
    let mut unit = tx.store.begin().await?;
    let value = work.attempt(unit.as_mut(), attempt).await?;
    unit.commit().await?;
    Ok(value)
}
