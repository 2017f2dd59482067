//! Plays steps on a store and writes down the answers, without what is each store's own: row ids, texts of errors,
//! and the last seconds of leases, which count from a clock that runs.

mod ask;
mod write;

use std::fmt::Debug;

use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::samples::{self, later, tenant};
use handover_events::{AggregateRef, Partition};
use handover_outbox::ports::StoreError;
use marketplace_contract::store::MarketRig;

use super::steps::{Op, Query, Small, Step, everything};
use ask::ask;
use write::apply;

/// How long leases and heartbeats last: never a sum of the clock's steps.
pub(crate) const LEASE: TimeDelta = TimeDelta::seconds(50);
const LEASE_MS: u32 = 50_000;
const CLOCK_STEP_S: i64 = 20;

/// Plays the steps, and looks at everything in the end.
pub(crate) async fn play(rig: &dyn MarketRig, steps: &[Step]) -> Vec<String> {
    let mut answers = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Clock(steps) => rig.move_database_clock(TimeDelta::seconds(steps * CLOCK_STEP_S)),
            Step::View(queries) => look(rig, number, queries, &mut answers).await,
            Step::Unit { ops, commit } => {
                let mut unit = rig.market().begin().await.expect("a unit begins");
                let mut failed = false;
                for op in ops {
                    let answer = apply(unit.as_mut(), op).await;
                    failed = answer.contains("Err(");
                    answers.push(format!("{number}: {op:?}: {answer}"));
                    if failed {
                        break;
                    }
                }
                if *commit {
                    // How a unit that failed refuses is its own affair.
                    let committed =
                        unit.commit().await.map_err(|error| if failed { "refused" } else { kind(&error) });
                    answers.push(format!("{number}: commit: {committed:?}"));
                }
            }
        }
    }
    look(rig, steps.len(), &everything(), &mut answers).await;
    answers.extend(renew_what_ended(rig).await);
    answers
}

/// In the end every lease runs out, and whoever had it asks for it back: too rare to happen by chance.
async fn renew_what_ended(rig: &dyn MarketRig) -> Vec<String> {
    rig.move_database_clock(LEASE * 2);
    let mut unit = rig.market().begin().await.expect("a unit begins");
    let mut answers = Vec::new();
    for relay in 1..=3 {
        let holds: Vec<_> =
            (1..=3).flat_map(|partition| (0..=3).map(move |epoch| (partition, epoch))).collect();
        for op in [Op::Fence { relay, holds: holds.clone() }, Op::Renew { relay, holds }] {
            answers.push(format!("in the end: {op:?}: {}", apply(unit.as_mut(), &op).await));
        }
    }
    answers
}

async fn look(rig: &dyn MarketRig, number: usize, queries: &[Query], answers: &mut Vec<String>) {
    let mut view = rig.market().view().await.expect("a view opens");
    for query in queries {
        let answer = ask(view.as_mut(), query).await;
        answers.push(format!("{number}: {query:?}: {answer}"));
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict { .. } => "Conflict",
        StoreError::Transient(_) => "Transient",
        StoreError::Unavailable(_) => "Unavailable",
        StoreError::CommitUnknown(_) => "CommitUnknown",
        StoreError::Corrupt { .. } => "Corrupt",
        StoreError::Backend(_) => "Backend",
    }
}

fn told<T: Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(value) => format!("Ok({value:?})"),
        Err(error) => format!("Err({})", kind(&error)),
    }
}

/// Moments far apart, so that what the running clock adds does not matter.
fn moment(number: Small) -> DateTime<Utc> {
    later(number * 100)
}

fn partition_of(number: Small) -> Partition {
    samples::partition(number)
}

fn aggregate_of(of: Small, kind: &str, id: Small) -> AggregateRef {
    AggregateRef { tenant: tenant(of), kind: kind.into(), id }
}
