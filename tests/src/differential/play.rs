//! Runs steps on a store and records the results without store-specific values: row ids, error texts, and the exact
//! ends of leases, which depend on a running clock.

mod ask;
mod write;

use std::fmt::Debug;

use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::samples::{self, later, tenant};
use handover_events::{AggregateRef, Partition};
use handover_outbox::ports::StoreError;
use marketplace_contract::store::MarketRig;

use super::steps::{Op, Query, Small, Step, everything};
use ask::run_query;
use write::apply;

/// Duration of leases and heartbeats. It MUST NOT be a multiple of the clock step: a lease must not end exactly at a
/// step.
pub(crate) const LEASE: TimeDelta = TimeDelta::seconds(50);
const LEASE_MS: u32 = 50_000;
const CLOCK_STEP_S: i64 = 20;

/// Runs the steps, then all queries.
pub(crate) async fn play(rig: &dyn MarketRig, steps: &[Step]) -> Vec<String> {
    let mut results = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Clock(steps) => rig.move_database_clock(TimeDelta::seconds(steps * CLOCK_STEP_S)),
            Step::View(queries) => run_queries(rig, number, queries, &mut results).await,
            Step::Unit { ops, commit } => {
                let mut unit = rig.market().begin().await.expect("cannot begin a unit of work");
                let mut failed = false;
                for op in ops {
                    let result = apply(unit.as_mut(), op).await;
                    failed = result.contains("Err(");
                    results.push(format!("{number}: {op:?}: {result}"));
                    if failed {
                        break;
                    }
                }
                if *commit {
                    // The error of a commit after a failed statement depends on the store, so only the refusal of the
                    // commit is compared.
                    let committed =
                        unit.commit().await.map_err(|error| if failed { "refused" } else { kind(&error) });
                    results.push(format!("{number}: commit: {committed:?}"));
                }
            }
        }
    }
    run_queries(rig, steps.len(), &everything(), &mut results).await;
    results.extend(renew_expired_leases(rig).await);
    results
}

/// Lets every lease expire and renews it for its former owner, which random sequences rarely do.
async fn renew_expired_leases(rig: &dyn MarketRig) -> Vec<String> {
    rig.move_database_clock(LEASE * 2);
    let mut unit = rig.market().begin().await.expect("cannot begin a unit of work");
    let mut results = Vec::new();
    for relay in 1..=3 {
        let holds: Vec<_> =
            (1..=3).flat_map(|partition| (0..=3).map(move |epoch| (partition, epoch))).collect();
        for op in [Op::Fence { relay, holds: holds.clone() }, Op::Renew { relay, holds }] {
            results.push(format!("in the end: {op:?}: {}", apply(unit.as_mut(), &op).await));
        }
    }
    results
}

async fn run_queries(rig: &dyn MarketRig, number: usize, queries: &[Query], results: &mut Vec<String>) {
    let mut view = rig.market().view().await.expect("a view opens");
    for query in queries {
        let result = run_query(view.as_mut(), query).await;
        results.push(format!("{number}: {query:?}: {result}"));
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict { .. } => "Conflict",
        StoreError::Transient(_) => "Transient",
        StoreError::Unavailable(_) => "Unavailable",
        StoreError::CommitUnknown(_) => "CommitUnknown",
        StoreError::Corrupt { .. } => "Corrupt",
        StoreError::IdInUse { .. } => "IdInUse",
        StoreError::Backend(_) => "Backend",
    }
}

fn rendered<T: Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(value) => format!("Ok({value:?})"),
        Err(error) => format!("Err({})", kind(&error)),
    }
}

/// Converts a small number to a time. Different numbers give times 100 s apart, so that a running clock does not change
/// their sequence.
fn moment(number: Small) -> DateTime<Utc> {
    later(number * 100)
}

fn partition_of(number: Small) -> Partition {
    samples::partition(number)
}

fn aggregate_of(of: Small, kind: &str, id: Small) -> AggregateRef {
    AggregateRef { tenant: tenant(of), kind: kind.into(), id: id.into() }
}
