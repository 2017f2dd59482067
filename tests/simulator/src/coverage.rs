//! Coverage of the runs, so that a test can check that they reach the critical situations.

use std::collections::BTreeMap;
use std::fmt;

use super::fault_kinds::{CrashPoint, Fault};
use super::machines::{self, Transition};

/// Counts how often each fault occurred, each crash point killed a process, each transition of a state machine was
/// taken, and each critical situation was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    faults: BTreeMap<Fault, u64>,
    points: BTreeMap<CrashPoint, u64>,
    transitions: BTreeMap<Transition, u64>,
    situations: BTreeMap<&'static str, u64>,
}

/// Situations that the runs have to reach, in addition to all faults, crash points and transitions.
pub(crate) const SITUATIONS: &[&str] = &[
    "second event of a fact",
    "FAILED event",
    "unpublishable row",
    "event that contradicts its order",
    "completed order",
    "order completed automatically",
    "order declined by its seller",
    "paid invoice",
    "refunded invoice",
    "refund by the seller",
    "dead letter",
    "partition lost while its rows are published",
    "two windows of a relay in flight",
    "leader replaced by another process",
    "refused lock",
    "lost event appended again",
    "ORDER_PAID redriven by the reaper",
    "late payment",
    "payment that assets cover completely",
    "payment that waited for asset locks",
    "failed refund",
    "refund that failed after it had succeeded",
    "captured wrong amount",
    "second capture",
    "refund of a late payment",
    "shipment refused during a refund",
    "revoked points that were spent",
    "publish after a failed publish",
    "attempt after a failed or unfinished attempt",
    "final state of the reference run",
    "event blocked by a FAILED event",
    "event waiting for an earlier event",
    "order cancelled by its deadline",
    "lost event found by the sweep",
    "refused access of another user",
    "replayed response",
    "request repeated while in progress",
    "webhook claimed again after its claim ended",
    "webhook waiting for an earlier one",
    "webhook interrupted by a stop",
    "webhook redelivered by an operator",
    "message of an archived event",
    "restored event redriven",
];

impl Coverage {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_insert(0) += 1;
    }

    pub(crate) fn point(&mut self, point: CrashPoint) {
        *self.points.entry(point).or_insert(0) += 1;
    }

    pub(crate) fn transition(&mut self, transition: Transition) {
        *self.transitions.entry(transition).or_insert(0) += 1;
    }

    pub(crate) fn situation(&mut self, situation: &'static str) {
        *self.situations.entry(situation).or_insert(0) += 1;
    }

    /// Adds the coverage of another run.
    pub fn add(&mut self, other: &Coverage) {
        fn add<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *to.entry(*key).or_insert(0) += count;
            }
        }
        add(&mut self.faults, &other.faults);
        add(&mut self.points, &other.points);
        add(&mut self.transitions, &other.transitions);
        add(&mut self.situations, &other.situations);
    }

    /// The faults that occurred less often than `times`.
    pub fn rarer_than(&self, times: u64) -> Vec<String> {
        let occurrences = |fault: &Fault| self.faults.get(fault).copied().unwrap_or(0);
        let rare = Fault::ALL.iter().filter(|fault| occurrences(fault) < times);
        rare.map(|fault| format!("{} fault {}: {}", fault.port(), fault.name(), occurrences(fault))).collect()
    }

    /// Names of all faults, crash points, transitions and situations that have to be reached and were not reached.
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::ALL.iter().filter(|fault| !self.faults.contains_key(fault));
        let points = CrashPoint::ALL.iter().filter(|point| !self.points.contains_key(point));
        let transitions =
            machines::required().filter(|transition| !self.transitions.contains_key(transition));
        let situations = SITUATIONS.iter().filter(|situation| !self.situations.contains_key(*situation));
        faults
            .map(|fault| format!("{} fault {}", fault.port(), fault.name()))
            .chain(points.map(|point| format!("crash point {}", point.name())))
            .chain(transitions.map(|transition| transition.to_string()))
            .chain(situations.map(|situation| (*situation).to_owned()))
            .collect()
    }
}

impl fmt::Display for Coverage {
    /// Writes one line for the faults of each port, one for the crash points, one for each state machine, and one for
    /// the situations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for fault in Fault::ALL {
            let count = self.faults.get(fault).copied().unwrap_or(0);
            rows.entry(format!("{} faults", fault.port()))
                .or_default()
                .push(format!("{} {count}", fault.name()));
        }
        for point in CrashPoint::ALL {
            let count = self.points.get(point).copied().unwrap_or(0);
            rows.entry("crash points".into()).or_default().push(format!("{} {count}", point.name()));
        }
        for (transition, count) in &self.transitions {
            let step = format!("{}->{} {count}", transition.from, transition.to);
            rows.entry(format!("transitions of {}", transition.machine)).or_default().push(step);
        }
        for situation in SITUATIONS {
            let count = self.situations.get(situation).copied().unwrap_or(0);
            rows.entry("situations".into()).or_default().push(format!("{situation} {count}"));
        }
        for (kind, cells) in rows {
            writeln!(f, "{kind}: {}", cells.join(", "))?;
        }
        Ok(())
    }
}
