//! Values of metrics, recorded on the thread of a test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

#[derive(Default)]
pub(crate) struct Measured {
    values: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<String, Arc<Values>>>,
}

/// The values of a histogram.
#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

/// Name of a metric, followed by the values of its labels.
fn named(key: &Key) -> String {
    key.labels().fold(key.name().to_owned(), |name, label| format!("{name} {}", label.value()))
}

impl Measured {
    fn of(&self, name: &str) -> Arc<AtomicU64> {
        Arc::clone(self.values.lock().unwrap().entry(name.to_owned()).or_default())
    }

    fn histogram_of(&self, name: &str) -> Arc<Values> {
        Arc::clone(self.histograms.lock().unwrap().entry(name.to_owned()).or_default())
    }

    /// The values of a histogram, in the order in which they were recorded.
    pub(crate) fn histogram(&self, name: &str) -> Vec<f64> {
        self.histogram_of(name).0.lock().unwrap().clone()
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.of(name).load(Ordering::Relaxed)
    }

    pub(crate) fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl Recorder for Measured {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(&named(key)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(&named(key)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.histogram_of(&named(key)))
    }
}
