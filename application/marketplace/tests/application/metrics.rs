//! The list of metrics.

use std::collections::BTreeSet;

use handover_application::METRICS;

#[test]
fn every_metric_has_a_name_of_its_own_and_says_what_it_counts() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    assert!(METRICS.iter().all(|metric| metric.help.len() > 20 && !metric.help.ends_with('.')));
}
