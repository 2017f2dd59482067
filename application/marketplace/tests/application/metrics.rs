//! The list of metrics.

use std::collections::BTreeSet;

use handover_outbox::METRICS as OF_OUTBOX;
use marketplace::METRICS as OF_MARKETPLACE;

#[test]
fn every_metric_has_a_name_of_its_own_and_says_what_it_counts() {
    let all: Vec<_> = OF_OUTBOX.iter().chain(&OF_MARKETPLACE).collect();
    let names: BTreeSet<&str> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len());
    assert!(all.iter().all(|metric| metric.help.len() > 20 && !metric.help.ends_with('.')));
}
