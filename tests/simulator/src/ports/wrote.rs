//! What a unit of work wrote, and what must hold when it is committed.

use std::collections::BTreeSet;
use std::time::Duration;

use handover_events::{AggregateRef, EventId, Partition};
use handover_outbox::ports::{PartitionHold, RelayId, StoreError};
use marketplace::ports::Work;
use marketplace_domain::Balance;

use super::Process;
use crate::faults::CrashPoint;
use crate::machines::{self, Edge};

/// What a unit wrote so far.
#[derive(Default)]
pub(super) struct Wrote {
    /// Steps of state machines.
    steps: Vec<Edge>,
    /// The same for the story, if somebody reads it.
    lines: Vec<String>,
    /// It appended events.
    pub(super) announces: bool,
    /// It settled outbox rows.
    pub(super) marks: bool,
    /// It counted an attempt before the attempt.
    pub(super) counts: bool,
    /// It wrote a failed attempt down.
    pub(super) fails: bool,
    /// It took partitions.
    pub(super) takes: bool,
    /// It began a replay.
    pub(super) replays: bool,
    /// It wrote down that the gateway is asked to pay back.
    pub(super) claims: bool,
    /// Balances, as it left them.
    pub(super) balances: Vec<Balance>,
    /// An operator's action wrote it, and said so in the audit log.
    pub(super) by_operator: bool,
    pub(super) audited: bool,
    /// Refused events and how long they rest.
    pub(super) charged: Vec<(EventId, Duration)>,
    pub(super) redriven: Vec<EventId>,
    pub(super) released: Vec<AggregateRef>,
    /// Events that it gave up.
    pub(super) given_up: Vec<EventId>,
    /// Effects of events, by consumer.
    pub(super) effects: BTreeSet<(&'static str, EventId)>,
    /// Events that the log has as applied, by consumer.
    pub(super) applied: BTreeSet<(String, EventId)>,
    /// Who settles, and under which epochs.
    pub(super) settler: Option<(RelayId, Vec<PartitionHold>)>,
    /// The partitions of the rows that are settled.
    pub(super) settled: BTreeSet<Partition>,
    /// Broken promises, should it be committed.
    pub(super) broken: Vec<String>,
}

impl Wrote {
    /// A step; `what` says of what in the words of the story.
    pub(super) fn step(
        &mut self,
        process: &Process,
        (machine, from, to): (&'static str, &'static str, &'static str),
        what: impl FnOnce() -> String,
    ) {
        let edge = Edge { machine, from, to };
        self.steps.push(edge);
        if !machines::is_legal(edge) {
            self.broken.push(format!("{} went from {from} to {to}", what()));
        } else if process.faults.is_recording() {
            self.lines.push(format!("{}: {from} -> {to}", what()));
        }
    }

    /// Before the commit: whoever settles a partition owns it, in the epoch that it shows. Asked of the leases themselves.
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
                self.broken.push(format!("{relay:?} settled {partition:?}, which it no longer owns"));
            }
        }
        Ok(())
    }

    /// Before the commit: what is frozen is what the holds say. A purse that is written is locked, and so are its holds.
    pub(super) async fn check_purses(&mut self, unit: &mut Work) -> Result<(), StoreError> {
        for balance in std::mem::take(&mut self.balances) {
            let (user, purse) = (balance.user, balance.purse);
            let holds = unit.holds_of_user(balance.tenant, user, purse.asset()).await?;
            let held: i64 = holds.iter().map(|hold| hold.amount).sum();
            if held != balance.frozen {
                let frozen = balance.frozen;
                self.broken.push(format!("{frozen} are frozen in the {purse} of {user}, holds say {held}"));
            }
        }
        Ok(())
    }

    /// It is committed: what it did happened, and must have been right.
    pub(super) fn happened(&self, process: &Process) {
        self.lines.iter().for_each(|line| process.note(|| line.clone()));
        process.faults.cover(|coverage| self.steps.iter().for_each(|edge| coverage.edge(*edge)));
        for (consumer, event) in &self.effects {
            if !self.applied.contains(&((*consumer).to_owned(), event.clone())) {
                process
                    .faults
                    .violation(format!("{consumer} had an effect of {event} without saying so in its log"));
            }
        }
        if self.by_operator && !self.audited {
            process.faults.violation("an operator changed something that is not in the audit log".to_owned());
        }
        process.faults.seen(|seen| {
            seen.given_up.extend(self.given_up.iter().cloned());
            seen.released.extend(self.released.iter().cloned());
            self.charged.iter().for_each(|(event, rest)| seen.charged(event, *rest));
            self.redriven.iter().for_each(|event| seen.redriven(event));
        });
        for broken in &self.broken {
            process.faults.violation(broken.clone());
        }
    }

    /// Where the process may die now that it is committed.
    pub(super) fn crash_points(&self) -> impl Iterator<Item = CrashPoint> {
        let points = [
            (self.announces, CrashPoint::AfterCommitBeforePublish),
            (self.marks, CrashPoint::AfterMark),
            (self.counts, CrashPoint::AfterCountBeforeAttempt),
            (self.fails, CrashPoint::AfterFailureBeforeNack),
            (self.takes, CrashPoint::InHandover),
            (self.replays, CrashPoint::InReplayBeforeSending),
            (self.claims, CrashPoint::AfterClaimBeforeGateway),
        ];
        points.into_iter().filter(|(reached, _)| *reached).map(|(_, point)| point)
    }
}
