//! The ports of one process: each wraps a memory adapter and injects faults.

pub(crate) mod archive;
pub(crate) mod broker;
pub(crate) mod clock;
pub(crate) mod defects;
pub(crate) mod gateway;
pub(crate) mod store;
pub(crate) mod unit;
mod unit_writes;
pub(crate) mod webhook_transport;
pub(crate) mod webhook_writes;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use handover_memory::VirtualClock;
use handover_outbox::ports::OnFailed;
use handover_outbox::{ConsumerQueue, OnOutage, Tasks};
use tokio::sync::Notify;

use super::fault_kinds::CrashPoint;
use super::faults::Faults;

/// Data of a simulated process that its ports need.
#[derive(Clone)]
pub(crate) struct Process {
    /// Name of the process in the log.
    pub(crate) name: Arc<str>,
    pub(crate) faults: Faults,
    pub(crate) tasks: Tasks,
    /// The correct time, for the checks.
    pub(crate) clock: VirtualClock,
    /// Configuration of `outbox.on-failed`.
    pub(crate) on_failed: OnFailed,
    pub(crate) on_outage: OnOutage,
    /// The consumer of each queue.
    pub(crate) consumers: Arc<BTreeMap<String, ConsumerQueue>>,
    /// Delays between the attempts at a webhook.
    pub(crate) webhook_delays: Arc<[Duration]>,
    /// Notified when the process crashes at a crash point.
    pub(crate) killed: Arc<Notify>,
}

impl Process {
    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        self.faults.note(&self.name, what);
    }

    /// Crashes the process at this point, if the fault occurs.
    pub(crate) async fn maybe_crash(&self, point: CrashPoint) {
        if self.tasks.is_killed() || !self.faults.crashes_at(point) {
            return;
        }
        self.note(|| format!("crashes at {}", point.name()));
        self.tasks.kill();
        self.killed.notify_one();
        // The tasks of the killed process end at this await. A caller outside the process (a client) gets no response.
        pending::<()>().await;
    }
}
