//! The ports of one process, each with the faults of its kind in front of the honest fake.

pub(crate) mod broker;
pub(crate) mod clock;
pub(crate) mod gateway;
pub(crate) mod store;
pub(crate) mod unit;
mod wrote;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use handover_outbox::ports::OnFailed;
use handover_outbox::{OnOutage, Tasks};
use tokio::sync::Notify;

use super::faults::{CrashPoint, Faults};

/// One process, as its ports know it.
#[derive(Clone)]
pub(crate) struct Process {
    /// Its name in the story.
    pub(crate) name: Arc<str>,
    pub(crate) faults: Faults,
    pub(crate) tasks: Tasks,
    /// What its operators have set.
    pub(crate) on_failed: OnFailed,
    pub(crate) on_outage: OnOutage,
    /// Which consumer works on which queue.
    pub(crate) consumers: Arc<BTreeMap<&'static str, &'static str>>,
    /// Rung when it was killed at a point.
    pub(crate) killed: Arc<Notify>,
}

impl Process {
    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        self.faults.note(&self.name, what);
    }

    /// May be as far as this process gets.
    pub(crate) async fn may_die(&self, point: CrashPoint) {
        if self.tasks.is_killed() || !self.faults.strikes_at(point) {
            return;
        }
        self.note(|| format!("dies {}", point.name()));
        self.tasks.kill();
        self.killed.notify_one();
        // Whoever asked is not a task of the process, if this is still there then: a client, who waits in vain.
        pending::<()>().await;
    }
}
