//! Runs of the reconciliation by the service itself.

use std::num::NonZeroU32;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{TenantId, Trace};
use handover_outbox::operations::Operator;
use handover_outbox::ports::StoreError;
use tokio::time::Instant;

use super::repair::{RepairContext, Repairs};
use super::report::Reconciliation;
use crate::context::Actor;
use crate::ports::MarketTransactor;
use crate::use_cases::operations::Operations;

/// A run rests this many times as long as it worked: with two jobs, the reconciliation works at most 10 % of the time.
const REST: u32 = 19;

/// A consumer with a backlog may apply a confirmed event as many times later as an event is usually in flight.
const BACKLOG: u32 = 10;

/// The rows that a run compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The orders that changed within the window, with their products, payments, refunds, events and effects.
    Orders,
    /// Also the newest products, effects, dead letters, outbox rows and invoices, and all open reports and ledger operations.
    Window,
    /// Also the orders of unresolved findings.
    Complete,
}

/// A run of the service itself. It repairs what needs no decision of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcileContinuously {
    pub scope: Scope,
    /// Start of the window, compared with the update time of orders.
    pub since: DateTime<Utc>,
    /// End of the window, exclusive.
    pub until: DateTime<Utc>,
    /// Time that a confirmed event is usually in flight.
    pub grace: Duration,
    /// Orders per page.
    pub batch: NonZeroU32,
}

/// One run: what it compares, and what it repairs for whom.
pub(super) struct Run<'a> {
    pub(super) by: RepairContext<'a>,
    pub(super) tenant: Option<TenantId>,
    /// Start and end of the window.
    pub(super) window: (DateTime<Utc>, DateTime<Utc>),
    pub(super) grace: TimeDelta,
    /// Time after which a confirmed event without record and effect counts as lost.
    pub(super) lost_after: TimeDelta,
    pub(super) scope: Scope,
    /// Orders per page.
    pub(super) batch: u32,
}

impl Operations {
    /// Compares the orders of all tenants, repairs what needs no decision of a person, and records the findings. Only the
    /// repairs are recorded in the audit log. Works at most 5 % of the time, and ends early when the process stops.
    pub async fn reconcile_continuously(
        &self,
        command: ReconcileContinuously,
    ) -> Result<Reconciliation, StoreError> {
        // Each run has its own trace: its repairs in the audit log differ from equal ones of another run.
        let trace_id = format!("reconciliation-{}", self.tx.now().timestamp_micros());
        let operator = Operator {
            name: Actor::System("reconciliation").to_string(),
            tenant: TenantId::DEFAULT,
            sees_all_tenants: true,
            sees_personal_data: false,
            trace: Trace { trace_id, traceparent: None },
        };
        let time = |time| TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        let run = Run {
            by: RepairContext { operator: &operator, reason: None, repairs: Repairs::Automatic },
            tenant: None,
            window: (command.since, command.until),
            grace: time(command.grace),
            lost_after: time(command.grace.saturating_mul(BACKLOG)),
            scope: command.scope,
            batch: command.batch.get(),
        };
        self.run(&run, &mut Pace::of_background_work()).await
    }
}

/// Limits the share of the time in which a run reads and writes.
pub(super) struct Pace {
    /// Rest after each part of the work, as a multiple of its duration; 0: none.
    rest: u32,
    worked_since: Instant,
    is_stopped: bool,
}

impl Pace {
    pub(super) fn unlimited() -> Pace {
        Pace { rest: 0, worked_since: Instant::now(), is_stopped: false }
    }

    fn of_background_work() -> Pace {
        Pace { rest: REST, ..Pace::unlimited() }
    }

    /// Whether the process began to stop during a rest: the run must end.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Rests after a part of the work.
    pub(super) async fn rest(&mut self, tx: &MarketTransactor) {
        if self.rest == 0 {
            return;
        }
        let rest = self.worked_since.elapsed().saturating_mul(self.rest);
        tokio::select! {
            biased;
            () = tx.stopping().cancelled() => self.is_stopped = true,
            () = tx.sleep(rest) => {}
        }
        self.worked_since = Instant::now();
    }
}
