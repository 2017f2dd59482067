//! Tests of the list of metrics.

use std::collections::BTreeSet;

use handover_outbox::{METRICS as OUTBOX_METRICS, state};
use marketplace::METRICS as MARKETPLACE_METRICS;

#[test]
fn metric_names_are_unique_and_help_texts_have_a_minimum_length_and_no_final_period() {
    let all: Vec<_> = OUTBOX_METRICS.iter().chain(state::metrics()).chain(MARKETPLACE_METRICS).collect();
    let names: BTreeSet<&str> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len());
    assert!(all.iter().all(|metric| metric.help.len() > 20 && !metric.help.ends_with('.')));
}
