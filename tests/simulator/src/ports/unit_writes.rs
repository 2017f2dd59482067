//! The writes of a unit of work, and the checks at its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, TenantId};
use handover_outbox::ports::{EventWithRecords, NewEvent, OwnedPartition, RelayId, StoreError, Unapplied};
use marketplace::ports::Work;
use marketplace_domain::{AggregateType, Balance, EventKind, Invoice, Order, Payment, Refund};

use super::Process;
use super::webhook_writes::WebhookWrites;
use crate::fault_kinds::CrashPoint;
use crate::machines::{self, Transition};

/// The writes of a unit of work.
#[derive(Default)]
pub(super) struct UnitWrites {
    /// Transitions of state machines.
    transitions: Vec<Transition>,
    /// The transitions as log lines, if the log is recorded.
    lines: Vec<String>,
    /// Whether the unit of work appended events.
    pub(super) appends_events: bool,
    /// Whether the unit of work recorded publish results in outbox rows.
    pub(super) settles_rows: bool,
    /// Whether the unit of work counted an attempt before the attempt began.
    pub(super) counts_attempt: bool,
    /// Whether the unit of work recorded a failed attempt.
    pub(super) records_failure: bool,
    /// Whether the unit of work acquired the leadership.
    pub(super) acquires_leadership: bool,
    /// Whether the unit of work acquired partitions.
    pub(super) acquires_partitions: bool,
    /// Whether the unit of work began a replay.
    pub(super) begins_replay: bool,
    /// Whether the unit of work recorded a refund request to the gateway.
    pub(super) records_refund_request: bool,
    /// Whether the unit of work recorded a file of the archive.
    pub(super) records_file: bool,
    /// Events that left the outbox.
    pub(super) archived: Vec<EventWithRecords>,
    /// Whether events returned to the outbox.
    pub(super) restores: bool,
    /// Balances that the unit of work wrote.
    pub(super) balances: Vec<Balance>,
    /// Whether the unit of work executes a command of an operator.
    pub(super) by_operator: bool,
    /// Whether the unit of work wrote to the audit log.
    pub(super) audited: bool,
    /// Failed events with their backoff.
    pub(super) backoffs: Vec<(EventId, Duration)>,
    pub(super) redriven: Vec<EventId>,
    pub(super) released: Vec<AggregateRef>,
    /// Events that the unit of work set to FAILED or DEAD.
    pub(super) failed_or_dead: Vec<EventId>,
    /// Events whose effects the unit of work wrote, by consumer.
    pub(super) effects: BTreeSet<(&'static str, EventId)>,
    /// Events that the unit of work recorded as SUCCESS, by consumer.
    pub(super) applied: BTreeSet<(String, EventId)>,
    /// For each consumer, the ordered events that were neither applied nor DEAD when the unit of work last read them.
    /// Events that are FAILED in the outbox are not included: later events may overtake them.
    unsettled: BTreeMap<String, Vec<OrderedEvent>>,
    /// The relay that records publish results, with the epochs of its partitions.
    pub(super) settler: Option<(RelayId, Vec<OwnedPartition>)>,
    /// Partitions of the rows whose publish results were recorded.
    pub(super) settled: BTreeSet<Partition>,
    pub(super) webhooks: WebhookWrites,
    /// Status changes of orders, payments and refunds, and new invoices.
    status_changes: Vec<StatusChange>,
    /// Aggregates and `aggregate_seq` of the events that the unit of work appended.
    appended: BTreeSet<(AggregateRef, i64)>,
    /// Events whose rows the unit of work inserted.
    pub(super) inserted: Vec<EventId>,
    /// Violations; they count only if the unit of work is committed.
    pub(super) violations: Vec<String>,
}

/// An event and its position within its aggregate.
struct OrderedEvent {
    event: EventId,
    aggregate: AggregateRef,
    position: (i64, i64),
}

/// A change of the status of an order, payment or refund, or a new invoice.
pub(super) struct StatusChange {
    aggregate: AggregateRef,
    /// Version of the aggregate after the change.
    version: i64,
    pub(super) status: &'static str,
}

impl StatusChange {
    pub(super) fn of_order(after: &Order) -> StatusChange {
        let aggregate = aggregate(AggregateType::Order, after.tenant, after.id.get());
        StatusChange { aggregate, version: after.version, status: after.status.as_str() }
    }

    pub(super) fn of_payment(after: &Payment) -> StatusChange {
        let aggregate = aggregate(AggregateType::Payment, after.tenant, after.id.get());
        StatusChange { aggregate, version: after.version, status: after.status.as_str() }
    }

    pub(super) fn of_invoice(after: &Invoice) -> StatusChange {
        let aggregate = aggregate(AggregateType::Invoice, after.tenant, after.id.get());
        StatusChange { aggregate, version: after.version, status: after.status.as_str() }
    }

    pub(super) fn of_refund(after: &Refund) -> StatusChange {
        let aggregate = aggregate(AggregateType::Refund, after.tenant, after.id.get());
        StatusChange { aggregate, version: after.version, status: after.status.as_str() }
    }
}

fn aggregate(kind: AggregateType, tenant: TenantId, id: i64) -> AggregateRef {
    AggregateRef { tenant, kind: kind.as_str().to_owned(), id: id.into() }
}

impl UnitWrites {
    /// Records a change that must have an event: a new invoice, every status of an order, and every status of a payment or
    /// refund except `PROCESSING`.
    pub(super) fn record_status_change(&mut self, change: StatusChange) {
        if change.status != "PROCESSING" {
            self.status_changes.push(change);
        }
    }

    /// Records the events that the application appends, also those whose rows are lost by a fault.
    pub(super) fn record_appended(&mut self, events: &[NewEvent]) {
        let versions =
            events.iter().filter_map(|event| Some((event.aggregate.clone(), event.aggregate_seq?)));
        self.appended.extend(versions);
    }

    /// The status changes without an event of the same version in the same unit of work.
    fn unannounced(&self) -> impl Iterator<Item = String> {
        let is_announced =
            |change: &&StatusChange| self.appended.contains(&(change.aggregate.clone(), change.version));
        self.status_changes.iter().filter(move |change| !is_announced(change)).map(|change| {
            let StatusChange { aggregate, version, status } = change;
            let name = aggregate.kind.to_lowercase();
            let id = &aggregate.id;
            format!("{name} {id} became {status} without an event of its version {version}")
        })
    }

    /// Records the unapplied events that the consumer read to find the events that it must apply first.
    pub(super) fn read_unapplied(&mut self, consumer: &str, unapplied: &[Unapplied]) {
        let is_ordered = |row: &&Unapplied| row.event.event_type.parse().map_or(true, EventKind::is_ordered);
        let rows = unapplied.iter().filter(is_ordered).filter(|row| row.event.status != OutboxStatus::Failed);
        let ordered_event = |row: &Unapplied| OrderedEvent {
            event: row.event.event_id.clone(),
            aggregate: row.event.aggregate.clone(),
            position: (row.event.aggregate_seq, row.event.id),
        };
        self.unsettled.insert(consumer.to_owned(), rows.map(ordered_event).collect());
    }

    /// Records that the consumer applied the event. Reports a violation if the unit of work read an earlier ordered
    /// event of the aggregate and has not applied it.
    pub(super) fn record_applied(&mut self, consumer: &str, event: &EventId) {
        let unsettled = self.unsettled.get(consumer).map_or(&[][..], Vec::as_slice);
        let applied = unsettled.iter().find(|it| it.event == *event);
        for earlier in unsettled {
            let is_overtaken = applied.is_some_and(|applied| {
                earlier.aggregate == applied.aggregate && earlier.position < applied.position
            });
            if is_overtaken && !self.applied.contains(&(consumer.to_owned(), earlier.event.clone())) {
                self.violations.push(format!("{consumer} applied {event} before {}", earlier.event));
            }
        }
        self.applied.insert((consumer.to_owned(), event.clone()));
    }

    /// Adds a transition; `what` is the object's name in the log.
    pub(super) fn transition(
        &mut self,
        process: &Process,
        (machine, from, to): (&'static str, &'static str, &'static str),
        what: impl FnOnce() -> String,
    ) {
        let transition = Transition { machine, from, to };
        self.transitions.push(transition);
        if !machines::is_legal(transition) {
            self.violations.push(format!("{}: illegal transition from {from} to {to}", what()));
        } else if process.faults.is_recording() {
            self.lines.push(format!("{}: {from} -> {to}", what()));
        }
    }

    /// Checks before the commit that the relay owns each partition whose rows it changed: the lease must name the relay
    /// and the epoch that the relay used.
    pub(super) async fn check_owner(&mut self, unit: &mut Work) -> Result<(), StoreError> {
        if self.settled.is_empty() {
            return Ok(());
        }
        let leases = unit.outbox().partition_leases().await?;
        let (relay, holds) = self.settler.take().unzip();
        for partition in &self.settled {
            let epoch =
                holds.iter().flatten().find(|hold| hold.partition == *partition).map(|hold| hold.epoch);
            let owned = leases.iter().any(|lease| {
                lease.partition == *partition && lease.owner == relay && Some(lease.epoch) == epoch
            });
            if relay.is_none() || !owned {
                self.violations.push(format!("{relay:?} changed rows of {partition:?} without owning it"));
            }
        }
        Ok(())
    }

    /// Checks before the commit that the frozen amount of each written purse equals the sum of its holds. The unit of
    /// work has locked the purse and its holds, so no other unit of work can change them.
    pub(super) async fn check_purses(&mut self, unit: &mut Work) -> Result<(), StoreError> {
        for balance in std::mem::take(&mut self.balances) {
            let (user, purse) = (balance.user, balance.purse);
            let holds = unit.holds_of_user(balance.tenant, user, purse.asset()).await?;
            let held: i64 = holds.iter().map(|hold| hold.amount).sum();
            if held != balance.frozen {
                let frozen = balance.frozen;
                self.violations
                    .push(format!("{frozen} are frozen in the {purse} of {user}, the holds sum to {held}"));
            }
        }
        Ok(())
    }

    /// Records the observations and violations after the commit.
    pub(super) fn record_commit(&self, process: &Process) {
        self.lines.iter().for_each(|line| process.note(|| line.clone()));
        process.faults.cover(|coverage| {
            self.transitions.iter().for_each(|transition| coverage.transition(*transition))
        });
        for (consumer, event) in &self.effects {
            if !self.applied.contains(&((*consumer).to_owned(), event.clone())) {
                process.faults.violation(format!(
                    "{consumer} applied an effect of {event} without a consume-log record"
                ));
            }
        }
        if self.by_operator && !self.audited {
            process.faults.violation("a change of an operator is not in the audit log".to_owned());
        }
        self.webhooks.record_commit(process, self.audited);
        if self.acquires_leadership {
            let before = process.faults.observed(|observed| observed.leader.replace(process.name.clone()));
            if before.is_some_and(|before| before != process.name) {
                process.faults.cover(|coverage| coverage.situation("leader replaced by another process"));
            }
        }
        process.faults.observed(|observed| {
            observed.failed_or_dead.extend(self.failed_or_dead.iter().cloned());
            observed.released.extend(self.released.iter().cloned());
            self.backoffs.iter().for_each(|(event, backoff)| observed.record_backoff(event, *backoff));
            self.redriven.iter().for_each(|event| observed.record_redrive(event));
            observed.appended.extend(self.inserted.iter().cloned());
            let archived = self.archived.iter().map(|event| (event.row.event_id.clone(), event.clone()));
            observed.archived.extend(archived);
        });
        for violation in self.violations.iter().cloned().chain(self.unannounced()) {
            process.faults.violation(violation);
        }
    }

    /// The crash points that follow the commit.
    pub(super) fn crash_points(&self) -> impl Iterator<Item = CrashPoint> {
        let points = [
            (self.appends_events, CrashPoint::AfterCommitBeforePublish),
            (self.settles_rows, CrashPoint::AfterMark),
            (self.counts_attempt, CrashPoint::AfterCountBeforeAttempt),
            (self.records_failure, CrashPoint::AfterFailureBeforeNack),
            (self.acquires_partitions, CrashPoint::InPartitionAcquisition),
            (self.begins_replay, CrashPoint::InReplayBeforeSending),
            (self.records_refund_request, CrashPoint::AfterClaimBeforeGateway),
            (self.records_file, CrashPoint::AfterFileRecorded),
            (!self.archived.is_empty(), CrashPoint::AfterEventsArchived),
            (self.restores, CrashPoint::AfterRestore),
        ];
        points.into_iter().filter(|(reached, _)| *reached).map(|(_, point)| point)
    }
}
