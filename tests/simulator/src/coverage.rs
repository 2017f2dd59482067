//! Where the runs got to, so that a test can tell whether they go where it hurts.

use std::collections::BTreeMap;
use std::fmt;

use super::faults::{CrashPoint, Fault};
use super::machines::{self, Edge};

/// How often each fault struck, each crash point killed, each edge of a state machine was walked, and each place that
/// hurts was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    faults: BTreeMap<Fault, u64>,
    points: BTreeMap<CrashPoint, u64>,
    edges: BTreeMap<Edge, u64>,
    places: BTreeMap<&'static str, u64>,
}

/// What the runs have to reach beside all faults, points and edges.
pub(crate) const PLACES: &[&str] = &[
    "a second event of a fact",
    "a FAILED event",
    "a row that can never be sent",
    "an event that its order contradicts",
    "a completed order",
    "a dead letter",
    "a partition lost in the middle of a window",
    "a lock that was refused",
    "a lost event announced once more",
    "a paid event sent again by the reaper",
    "a payment that came too late",
    "a payment without the gateway",
    "a payment that waited for its locks",
    "a refund that failed",
    "a refund of a payment that came too late",
    "a shipment refused while its refund was running",
    "points taken back that were spent",
    "a publish after a failed one",
    "an attempt after a failed or unfinished one",
    "an end as on a good day",
    "an event held by a failed one",
    "an event that waits for an earlier one",
    "an order closed by its deadline",
    "a lost event found by the sweep",
    "a refusal of a stranger",
    "a request that was answered before",
    "a repeat while the first is at work",
    "an attempt that was overtaken",
];

impl Coverage {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_insert(0) += 1;
    }

    pub(crate) fn point(&mut self, point: CrashPoint) {
        *self.points.entry(point).or_insert(0) += 1;
    }

    pub(crate) fn edge(&mut self, edge: Edge) {
        *self.edges.entry(edge).or_insert(0) += 1;
    }

    pub(crate) fn place(&mut self, place: &'static str) {
        *self.places.entry(place).or_insert(0) += 1;
    }

    /// Adds what another run reached.
    pub fn add(&mut self, other: &Coverage) {
        fn add<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *to.entry(*key).or_insert(0) += count;
            }
        }
        add(&mut self.faults, &other.faults);
        add(&mut self.points, &other.points);
        add(&mut self.edges, &other.edges);
        add(&mut self.places, &other.places);
    }

    /// The faults that struck less often than that.
    pub fn rarer_than(&self, times: u64) -> Vec<String> {
        let struck = |fault: &Fault| self.faults.get(fault).copied().unwrap_or(0);
        let rare = Fault::ALL.iter().filter(|fault| struck(fault) < times);
        rare.map(|fault| format!("the fault {} of the {}: {}", fault.name(), fault.port(), struck(fault)))
            .collect()
    }

    /// What was never reached and has to be.
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::ALL.iter().filter(|fault| !self.faults.contains_key(fault));
        let points = CrashPoint::ALL.iter().filter(|point| !self.points.contains_key(point));
        let edges = machines::wanted().filter(|edge| !self.edges.contains_key(edge));
        let places = PLACES.iter().filter(|place| !self.places.contains_key(*place));
        faults
            .map(|fault| format!("the fault {} of the {}", fault.name(), fault.port()))
            .chain(points.map(|point| format!("the crash point {}", point.name())))
            .chain(edges.map(|edge| edge.to_string()))
            .chain(places.map(|place| (*place).to_owned()))
            .collect()
    }
}

impl fmt::Display for Coverage {
    /// A table: one line per port, machine and kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for fault in Fault::ALL {
            let count = self.faults.get(fault).copied().unwrap_or(0);
            rows.entry(format!("faults of the {}", fault.port()))
                .or_default()
                .push(format!("{} {count}", fault.name()));
        }
        for point in CrashPoint::ALL {
            let count = self.points.get(point).copied().unwrap_or(0);
            rows.entry("crash points".into()).or_default().push(format!("{} {count}", point.name()));
        }
        for (edge, count) in &self.edges {
            let step = format!("{}->{} {count}", edge.from, edge.to);
            rows.entry(format!("steps of {}", edge.machine)).or_default().push(step);
        }
        for place in PLACES {
            let count = self.places.get(place).copied().unwrap_or(0);
            rows.entry("places".into()).or_default().push(format!("{place} {count}"));
        }
        for (kind, cells) in rows {
            writeln!(f, "{kind}: {}", cells.join(", "))?;
        }
        Ok(())
    }
}
