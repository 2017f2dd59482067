//! Loops that are restarted after a panic.

use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use crate::transaction::Transactor;

/// Pause before a loop is restarted after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Runs a loop as a task until the process stops. A loop that panics is logged and restarted.
pub(crate) fn keep_running<F>(tx: &Transactor, name: &str, start: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (supervised, name) = (tx.clone(), name.to_owned());
    drop(tx.spawn(async move { restarting(&supervised, &name, start).await }));
}

/// Runs a loop as a task of its own until it ends, or until this future is dropped. A loop that panics is logged and restarted.
pub(crate) async fn restarting<F>(tx: &Transactor, name: &str, start: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(panic) = AbortOnDropHandle::new(tx.spawn(start())).await {
        error!(code = "task.panicked", %panic, "[{name}] [ALERT] task panicked; restarting in {AFTER_PANIC:?}");
        tx.clock().sleep(AFTER_PANIC).await;
    }
}
